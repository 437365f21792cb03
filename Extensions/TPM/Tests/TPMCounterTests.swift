#if TPM
    import CTSS2
    import Foundation
    import LockboxCore
    import LockboxStore
    import Testing

    @testable import LockboxTPM

    extension TPMTests {
        struct TPMCounterTests {
            private let tpm: SoftwareTPM
            private var counter: TPMCounter { TPMCounter(tcti: tpm.tcti) }

            init() throws { tpm = try SoftwareTPM() }

            @Test func countsUpwards() throws {
                let first = try counter.define()
                #expect(try counter.read() == first)
                #expect(try counter.increment() == first + 1)
                #expect(try counter.increment() == first + 2)
                try tpm.restart()
                #expect(try counter.read() == first + 2)
            }

            /// Across a restart of the machine, where nothing else remembers.
            @Test func anOldCopyOfAStoreIsRefused() throws {
                _ = try counter.define()
                let directory = NSTemporaryDirectory() + "lockbox-tpm-\(UInt64.random(in: .min ... .max))"
                defer { try? FileManager.default.removeItem(atPath: directory) }
                let own = EncryptedFileBackend(directory: directory, deviceKey: key, counter: counter)
                try own.checkAccess(.always, now: Date())
                // The counter's first value may be higher than the number of a new store.
                try own.acceptRestored()
                let keybag = try Data(contentsOf: URL(filePath: "\(directory)/keybag"))
                try own.rotateKeys()
                try tpm.restart()
                let next = EncryptedFileBackend(directory: directory, deviceKey: key, counter: counter)
                #expect(try next.status()?.slots == [])
                try keybag.write(to: URL(filePath: "\(directory)/keybag"))
                expectError(.rolledBack) {
                    try EncryptedFileBackend(directory: directory, deviceKey: key, counter: counter).status()
                }
            }

            private var key: DeviceKeySource { .closure { [UInt8](repeating: 7, count: 32) } }

            @Test func anAbsentCounterIsNoFirstUse() throws {
                #expect(try counter.read() == nil)
                expectError(.missing) { try counter.increment() }
                try counter.undefine()
            }

            @Test func aCounterWithoutValueIsFinished() throws {
                try tpm.defineIndex(type: 1, size: 8)
                #expect(try counter.read() == nil)
                let first = try counter.define()
                #expect(try counter.read() == first)
            }

            @Test func aCounterIsDefinedOnce() throws {
                let first = try counter.define()
                expectError(.invalidKey) { try counter.define() }
                #expect(try counter.read() == first)
            }

            @Test func aRemovedCounterGoesOnAboveItsOldValue() throws {
                _ = try counter.define()
                for _ in 0..<5 { _ = try counter.increment() }
                let last = try #require(try counter.read())
                try counter.undefine()
                #expect(try counter.read() == nil)
                #expect(try counter.define() > last)
                try tpm.clear()
                #expect(try counter.read() == nil)
                #expect(try counter.define() > last)
            }

            @Test func twoCountersAreTwo() throws {
                let other = TPMCounter(index: 0x0180_0001, tcti: tpm.tcti)
                let first = try counter.define()
                _ = try other.define()
                _ = try other.increment()
                #expect(try counter.read() == first)
            }

            @Test func incrementsOfTwoThreadsAllCount() throws {
                let first = try counter.define()
                DispatchQueue.concurrentPerform(iterations: 8) { [counter] _ in
                    for _ in 0..<5 { _ = try? counter.increment() }
                }
                #expect(try counter.read() == first + 40)
            }

            @Test(arguments: [(0, 8), (1, 9)] as [(UInt32, UInt16)])
            func somethingElseAtTheIndex(type: UInt32, size: UInt16) throws {
                do { try tpm.defineIndex(type: type, size: size) } catch  where type == 1 {
                    return  // no TPM lets a counter be longer
                }
                expectError(.invalidKey) { try counter.read() }
            }

            @Test func anOwnerWithPassword() throws {
                let first = try counter.define()
                try tpm.setPassword(of: .owner)
                #expect(try counter.increment() == first + 1)
                for call in [
                    { try counter.undefine() },
                    { _ = try TPMCounter(index: 0x0180_0001, tcti: tpm.tcti).define() },
                ] {
                    expectError(.accessDenied) { try call() }
                }
            }

            /// Compiled only if the calls throw nothing but our errors.
            @Test func errorsAreTyped() throws {
                do { _ = try counter.increment() } catch { #expect(error.code == .missing) }
                do {
                    try TPMUnlock(pin: nil, tcti: "device:/dev/no-such-tpm").resetLockout()
                } catch { #expect(error.code == .notReachable) }
            }

            @Test func noDevice() {
                expectError(.notReachable) { try TPMCounter(tcti: "device:/dev/no-such-tpm").read() }
            }
        }
    }
#endif
