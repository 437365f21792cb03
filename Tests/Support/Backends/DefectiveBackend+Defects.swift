import Lockbox
@testable import LockboxTesting

extension DefectiveBackend {
    enum Defect: CaseIterable {
        case inventsValues, changesValue, forgetsLabel, cutsLongValues, storesWhatIsTooLarge,
            changesDatesOfItems
        case readsExpiredOfSeveral, waitsForItself
        case losesCreated, ignoresPolicy, updatesWhatIsAbsent, changesBeforeItChecks
        case dropsLastOfBatch, writesOneKeyTwice
        case movesACopy, movesWhatHasExpired, movesOverAnything, losesWhatMovesBack
        case copiesWhatIsGone, copiesNothing
        case ignoresExpiry, destroysExpired, refusesToAddOverExpired, removesWhatLives
        case neverRemoves, removesEverything, comparesBytes, ignoresCase, joinsNames, ignoresPrefix
        case listsFewerPrefixes
        case showsReservedPrefixes, refusesReservedPrefixes, keepsNothingReservedHere
        case listsExpired, listsTwice, listsOtherPrefixes, listsUnderItsLock, swallowsErrorsOfLists
        case forgetsClass, forgetsExpiryWithTheClass, resetsWhatIsNotNamed
        case keepsExpiryOfReplacedValue, losesExpiryOfUpdatedValue, createsFromAttributes, forgetsSearchable
        case updatesBlindly, updatesUnderItsLock, resetsOtherPrefixes, updatesWithoutLock,
            updateReadsBeforeTheLock
        case takesDamagedForAbsent, takesDamagedForExpired, removesDamaged, skipsDamaged, keepsDamaged,
            verifiesDamaged, removesUnreadable,
            misnamesDamaged
        case removesAnyRecord, removesByOldRecord, quarantinesNothing
        case misstatesItsLock, verifiesNothing, hasOneLocation, synchronizesOnlyItems
        case reportsNothing, reportsOtherPrefixes, reportsNoRemovals, neverStopsReporting, reportsUnderItsLock

        /// The requirements that the suite must find unmet.
        var requirements: [BackendConformance] {
            switch self {
            case .inventsValues: [.absentIsNil]
            case .changesValue, .forgetsLabel: [.roundTrip]
            case .cutsLongValues: [.sizes]
            case .storesWhatIsTooLarge: [.tooLarge]
            case .changesDatesOfItems, .waitsForItself: [.wholeItem]
            case .readsExpiredOfSeveral: [.severalValues]
            case .losesCreated: [.replaceKeepsCreated]
            case .ignoresPolicy: [.addOnly, .updateOnly, .failedWrite]
            case .updatesWhatIsAbsent: [.updateOnly]
            case .changesBeforeItChecks: [.failedWrite]
            case .dropsLastOfBatch, .writesOneKeyTwice: [.batch]
            case .movesACopy, .movesWhatHasExpired, .movesOverAnything: [.moving]
            case .losesWhatMovesBack: [.oppositeMoves]
            case .copiesWhatIsGone, .copiesNothing: [.copying]
            case .ignoresExpiry: [.expiry]
            case .destroysExpired: [.expiryDestroysNothing]
            case .refusesToAddOverExpired: [.policiesAndExpiry]
            case .removesWhatLives: [.removeExpired]
            case .neverRemoves: [.removal]
            case .removesEverything: [.removeAll]
            case .comparesBytes: [.keyEquality]
            case .ignoresCase: [.oddKeys]
            case .joinsNames, .ignoresPrefix, .listsFewerPrefixes: [.prefixes]
            case .showsReservedPrefixes, .refusesReservedPrefixes, .keepsNothingReservedHere:
                [.reservedPrefixes]
            case .listsExpired, .listsTwice, .listsOtherPrefixes, .listsUnderItsLock, .swallowsErrorsOfLists:
                [.lists]
            case .forgetsClass: [.classes]
            case .forgetsExpiryWithTheClass: [.changeOfClass]
            case .resetsWhatIsNotNamed: [.keepsWhatIsNotNamed]
            case .keepsExpiryOfReplacedValue, .losesExpiryOfUpdatedValue: [.expiryBelongsToTheValue]
            case .createsFromAttributes: [.changesOfAttributes]
            case .forgetsSearchable: [.searchable]
            case .updatesBlindly: [.update]
            case .updatesUnderItsLock, .resetsOtherPrefixes: [.updateAcrossPrefixes]
            case .updatesWithoutLock: [.updateIsOneStep, .manyThreads]
            case .updateReadsBeforeTheLock: [.updateIsOneStep]
            case .takesDamagedForAbsent, .takesDamagedForExpired, .removesDamaged, .skipsDamaged,
                .keepsDamaged, .verifiesDamaged, .removesUnreadable,
                .misnamesDamaged:
                [.damagedItems]
            case .removesAnyRecord, .removesByOldRecord, .quarantinesNothing: [.repair]
            case .misstatesItsLock: [.lockState]
            case .verifiesNothing: [.verification]
            case .hasOneLocation: [.locations]
            case .synchronizesOnlyItems: [.synchronization]
            case .reportsNothing, .reportsOtherPrefixes, .reportsNoRemovals, .neverStopsReporting: [.changes]
            case .reportsUnderItsLock: [.changesEndFromWithin]
            }
        }
    }
}
