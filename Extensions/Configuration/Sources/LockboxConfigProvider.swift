#if Configuration
    public import Configuration
    @_spi(Extensions) public import Lockbox
    @_spi(Extensions) import LockboxCore
    import LockboxPlatform
    public import ServiceLifecycle

    /// Provides the values of a lockbox to swift-configuration, always marked as secrets.
    ///
    /// ```swift
    /// import Configuration
    ///
    /// let secrets = try await LockboxConfigProvider(lockbox)
    /// let config = ConfigReader(providers: [EnvironmentVariablesProvider(), secrets])
    /// let password = try config.requiredString(forKey: "database.password")
    /// ```
    ///
    /// The item's key is the components of the configuration's key with dots between them. The context of a key is not
    /// used.
    ///
    /// `value` and `snapshot` answer from memory: they do not wait for a disk or a network. A value in memory was read by
    /// `init`, `reload()`, `run()`, `fetchValue`, or a watch, and stays there, also if the store is locked or cannot be reached
    /// later. While `run()` or a watch runs, what was locked or could not be reached is tried again once in a second. An expired
    /// item is absent from its expiry on.
    ///
    /// If the key of a damaged item is unknown, looking up an absent key reads the store, and may block.
    ///
    /// `nil` means that there is no such item. Each item that is locked, damaged or does not fit the type throws its own
    /// ``LockboxError`` when it is asked for, and does not affect the others. Note that a `ConfigReader` throws it only from
    /// its `required…` and `fetch…` methods; the others report it to their access reporter, and return `nil` or the default.
    ///
    /// Values fit as follows, whether they were archived as JSON or as bytes (text is UTF-8):
    ///
    /// | asked for | archived |
    /// |---|---|
    /// | string | `String`, or `Data` with text |
    /// | int, double | a number, or text of one |
    /// | bool | `Bool`, or the text `true` or `false` |
    /// | bytes | `Data`, or the bytes of a `String` |
    /// | arrays | an array: of `String`, `Int`, `Double`, `Bool`, or `Data` |
    public final class LockboxConfigProvider: ConfigProvider, Service {
        /// The name that access reporters show.
        public let providerName: String

        let lockbox: Lockbox
        private let contents: Guarded<Contents>

        /// Creates a provider, and reads all items with the lockbox's prefix, outside the cooperative pool.
        ///
        /// - Parameters:
        ///   - lockbox: The lockbox to read. Every value with its prefix is loaded into memory, so use the prefix for
        ///     configuration only.
        ///   - name: The name that access reporters show.
        /// - Throws: ``LockboxError`` if the items cannot be listed at all. An item that cannot be read throws only when it
        ///   is asked for.
        public init(_ lockbox: Lockbox, name: String = "lockbox") async throws {
            self.lockbox = lockbox
            providerName = name
            contents = Guarded(Contents())
            try await reload()
        }

        // MARK: Reading

        /// Returns the value for a key, from memory.
        ///
        /// - Parameters:
        ///   - key: The configuration's key.
        ///   - type: The type of the value.
        /// - Returns: The value, marked as a secret, or none if there is no such item.
        /// - Throws: ``LockboxError`` if the item could not be read, or does not fit the type.
        public func value(forKey key: AbsoluteConfigKey, type: ConfigType) throws -> LookupResult {
            try snapshot().value(forKey: key, type: type)
        }

        /// Reads the value for a key from the store, outside the cooperative pool.
        ///
        /// - Parameters:
        ///   - key: The configuration's key.
        ///   - type: The type of the value.
        /// - Returns: The value, marked as a secret, or none if there is no such item.
        /// - Throws: ``LockboxError`` if the item cannot be read, or does not fit the type.
        public func fetchValue(forKey key: AbsoluteConfigKey, type: ConfigType) async throws -> LookupResult {
            let name = try name(key)
            let reading = await read(name)
            return try reading.result(name, type, lockbox, at: lockbox.now())
        }

        /// Returns all values, as they are in memory now.
        public func snapshot() -> any ConfigSnapshot {
            Snapshot(
                providerName: providerName,
                lockbox: lockbox,
                contents: contents.withLock { $0 },
                date: lockbox.now()
            )
        }

        /// Reads all items again.
        ///
        /// - Throws: ``LockboxError`` if the items cannot be listed at all. Those in memory then stay.
        public func reload() async throws {
            let begin = contents.withLock { $0.begin() }
            let lockbox = lockbox
            let list = try await lockbox.async { try ReadList($0) }
            contents.withLock { $0.store(list, from: begin) }
        }

        /// Keeps what is in memory up to date, until the task is canceled or its service group shuts down.
        ///
        /// - Throws: ``LockboxError/notSupported(operation:)`` if the backend does not report changes, or ``LockboxError``
        ///   if they can no longer be observed.
        public func run() async throws {
            let changes = try await lockbox.async { try $0.changes() }
            try await reload()
            let retries = Task { await retry {} }
            defer { retries.cancel() }
            for try await change in changes.cancelOnGracefulShutdown() { await apply(change) }
        }

        /// Reads what could not be read for now again, once in a second, and calls a closure when something could. An unlock is
        /// no change of an item, so nothing else reports it.
        private func retry(_ body: @Sendable () async -> Void) async {
            var seen = contents.withLock { $0.recoveries }
            while (try? await Task.sleep(for: .seconds(1))) != nil {
                let (names, isAll) = contents.withLock { ($0.postponed, $0.areAllPostponed) }
                if isAll { try? await reload() }
                for name in names where !Task.isCancelled { _ = await read(name) }
                // Another task may have read it.
                let recoveries = contents.withLock { $0.recoveries }
                if recoveries != seen { await body() }
                seen = recoveries
            }
        }

        // MARK: Watching

        /// Calls a closure with the value for a key, as the store has it now, and then with each change of it. While the item
        /// cannot be read, as in a locked store, its value is what was read before.
        ///
        /// If the backend does not report changes, the closure gets the current value only.
        ///
        /// - Parameters:
        ///   - key: The configuration's key.
        ///   - type: The type of the value.
        ///   - updatesHandler: Gets the values, or the errors of reading them. If it is slow, it gets only the last one. The
        ///     sequence ends when the task is canceled, or changes can no longer be observed; its last element is then that
        ///     error.
        /// - Returns: The closure's result.
        /// - Throws: The closure's errors, and ``LockboxError`` if the changes of a backend that reports them cannot be
        ///   observed.
        public func watchValue<Return: ~Copyable>(
            forKey key: AbsoluteConfigKey,
            type: ConfigType,
            updatesHandler: (
                _ updates: ConfigUpdatesAsyncSequence<Result<LookupResult, any Error>, Never>
            ) async throws -> Return
        ) async throws -> Return {
            let name = try name(key)
            let (updates, update) = AsyncStream.makeStream(
                of: Result<LookupResult, any Error>.self,
                bufferingPolicy: .bufferingNewest(1)
            )
            let changes = try await self.changes()
            @Sendable func read() async -> Result<LookupResult, any Error> {
                _ = await self.read(name)
                let reading = contents.withLock { $0.items[name] }
                return Result { try reading.result(name, type, lockbox, at: lockbox.now()) }
            }
            let first = await read()
            let last = Guarded(try? first.get())
            update.yield(first)
            @Sendable func yieldNext() async {
                let next = await read()
                let isSame = last.withLock { last in
                    defer { last = try? next.get() }
                    return last != nil && last == (try? next.get())
                }
                if !isSame { update.yield(next) }
            }
            let task = changes.map { changes in
                Task {
                    do {
                        for try await change in changes where change.concerns(name) { await yieldNext() }
                    } catch { update.yield(.failure(error)) }
                    update.finish()
                }
            }
            let retries = changes.map { _ in Task { await retry(yieldNext) } }
            defer {
                task?.cancel()
                retries?.cancel()
            }
            return try await updatesHandler(ConfigUpdatesAsyncSequence(updates))
        }

        /// Calls a closure with all values, as the store has them now, and then again after changes.
        ///
        /// If the backend does not report changes, the closure gets the current values only.
        ///
        /// - Parameter updatesHandler: Gets the values. If it is slow, it gets only the last ones. The sequence ends when the
        ///   task is canceled, or changes can no longer be observed.
        /// - Returns: The closure's result.
        /// - Throws: The closure's errors, and ``LockboxError`` if the items cannot be listed, or the changes of a
        ///   backend that reports them cannot be observed.
        public func watchSnapshot<Return: ~Copyable>(
            updatesHandler: (_ updates: ConfigUpdatesAsyncSequence<any ConfigSnapshot, Never>) async throws ->
                Return
        ) async throws -> Return {
            let (updates, update) = AsyncStream.makeStream(
                of: (any ConfigSnapshot).self,
                bufferingPolicy: .bufferingNewest(1)
            )
            let changes = try await self.changes()
            try await reload()
            update.yield(snapshot())
            let task = changes.map { changes in
                Task {
                    do {
                        for try await change in changes {
                            await apply(change)
                            update.yield(snapshot())
                        }
                    } catch {}
                    update.finish()
                }
            }
            let retries = changes.map { _ in Task { await retry { update.yield(self.snapshot()) } } }
            defer {
                task?.cancel()
                retries?.cancel()
            }
            return try await updatesHandler(ConfigUpdatesAsyncSequence(updates))
        }

        // MARK: The store

        private func name(_ key: AbsoluteConfigKey) throws(LockboxError) -> String {
            let name = key.components.joined(separator: ".")
            _ = try ItemKey(prefix: lockbox.keyPrefix, key: name)
            return name
        }

        /// Returns nil if the backend does not report changes.
        private func changes() async throws -> AsyncThrowingStream<LockboxChange, any Error>? {
            do { return try await lockbox.async { try $0.changes() } } catch LockboxError.notSupported {
                return nil
            }
        }

        /// Also keeps what it has read.
        private func read(_ name: String) async -> Reading? {
            let begin = contents.withLock { $0.begin() }
            let reading: Reading?
            do { reading = try await lockbox.async { Reading(name, $0) } } catch { reading = .failure(error) }
            contents.withLock { $0.store(reading, name, from: begin) }
            return reading
        }

        private func apply(_ change: LockboxChange) async {
            if case .item(let name) = change {
                _ = await read(name)
            } else {
                do { try await reload() } catch { contents.withLock { $0.postponeAll() } }
            }
        }
    }

    extension LockboxConfigProvider: CustomStringConvertible, CustomReflectable {
        /// The name and the key prefix. Does not show any values.
        public var description: String { "LockboxConfigProvider(\(providerName), \(lockbox.keyPrefix))" }

        /// Keeps `dump(_:)` from showing values.
        public var customMirror: Mirror { Mirror(self, children: []) }
    }

    extension LockboxChange {
        fileprivate func concerns(_ name: String) -> Bool {
            if case .item(let other) = self { other == name } else { true }
        }
    }
#endif
