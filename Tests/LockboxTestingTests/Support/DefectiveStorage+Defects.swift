@_spi(Extensions) @testable import LockboxTesting

extension DefectiveStorage {
    enum Defect: CaseIterable {
        case inventsRecords, losesLastByte, waitsForItself, hasNoRoom, ignoresLimit, hasLessRoomForCommits
        case dropsAPage, repeatsARecord, givesTooLong, listsPagesUnderItsLock
        case sharesItsBytes, keepsOldBytes, neverRemoves, mixesNamespaces, ignoresMaximum, swallowsErrors
        case locatesByNameAlone, namesNoRecord
        case ignoresExpectations, ignoresOtherNamespaces, comparesFirstExpectation
        case changesBeforeItCompares, dropsSecondChange
        case repeatsRevisions, countsAnewAfterARestart, forgetsAtARestart
        case lockStopsNobody, commitsUnderALostLock, lockOutlivesItsOwner, looksUpBehindLocks
        case comparesBeforeTheLock, comparesOthersBeforeTheLock, tearsRecords, listsShortly,
            listsBesideCommits, sharesOneMomentOnly
        case findsItsOwnRecords, quarantinesNothing, quarantinesWhatIsAbsent
        case reportsNoRecords, reportsNoRemovals, reportsOneOfACommit, reportsOtherNamespaces
        case reportsBeforeTheCommit, neverStopsReporting, waitsForItsReport, reportsUnderItsLock

        /// The requirements that the suite must find unmet.
        var requirements: [StorageConformance] {
            switch self {
            case .inventsRecords: [.absent]
            case .losesLastByte, .waitsForItself: [.roundTrip]
            case .hasNoRoom, .ignoresLimit, .hasLessRoomForCommits: [.limits]
            case .dropsAPage, .repeatsARecord, .givesTooLong, .listsPagesUnderItsLock: [.pages]
            case .sharesItsBytes: [.copies]
            case .keepsOldBytes: [.replacement]
            case .neverRemoves: [.removal]
            case .mixesNamespaces: [.namespaces]
            case .ignoresMaximum, .swallowsErrors, .locatesByNameAlone, .namesNoRecord: [.errors]
            case .ignoresExpectations, .ignoresOtherNamespaces, .comparesFirstExpectation: [.expectations]
            case .changesBeforeItCompares, .dropsSecondChange: [.severalChanges]
            case .repeatsRevisions: [.revisions]
            case .countsAnewAfterARestart, .forgetsAtARestart: [.restarts]
            case .lockStopsNobody: [.locks]
            case .commitsUnderALostLock: [.lostLocks]
            case .lockOutlivesItsOwner: [.lockEndsWithItsOwner]
            case .looksUpBehindLocks: [.lookUpsDoNotWait]
            case .comparesBeforeTheLock: [.noLostUpdate]
            case .comparesOthersBeforeTheLock: [.noWriteSkew]
            case .tearsRecords: [.wholeRecords]
            case .listsShortly: [.listsAreComplete]
            case .listsBesideCommits: [.listsBehindCommits]
            case .sharesOneMomentOnly: [.transactions]
            case .findsItsOwnRecords: [.cleanFindings]
            case .quarantinesNothing, .quarantinesWhatIsAbsent: [.quarantine]
            case .reportsNoRecords, .reportsNoRemovals, .reportsOneOfACommit, .reportsOtherNamespaces,
                .reportsBeforeTheCommit, .neverStopsReporting:
                [.notices]
            case .waitsForItsReport: [.noticesEndFromWithin]
            case .reportsUnderItsLock: [.notices, .noticesEndFromWithin]
            }
        }
    }
}
