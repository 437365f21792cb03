#if os(Linux) && canImport(Runtime)
    import Foundation
    import Runtime
    import Testing

    @testable import LockboxCore

    /// The functions of Lockbox that lead to system calls.
    final class CallChains: Sendable {
        private struct State {
            var isRecording = false
            var backtraces: [[UInt64]: Backtrace] = [:]
        }

        private let state = Protected(State())
        private static let images = ImageMap.capture()

        /// Called at a system call.
        func capture() {
            guard state.withLock({ $0.isRecording }),
                let backtrace = try? Backtrace.capture(limit: 256, images: Self.images)
            else { return }
            let addresses = backtrace.frames.map { UInt64($0.adjustedProgramCounter)! }
            state.withLock { $0.backtraces[addresses] = backtrace }
        }

        func record<Result>(_ body: () throws -> Result) rethrows -> Result {
            state.withLock { $0.isRecording = true }
            defer { state.withLock { $0.isRecording = false } }
            return try body()
        }

        /// The longest chain from a function is at most this long, and the chains pass through these other functions.
        func expect(from start: String, atMost limit: Int, including names: [String]) throws {
            var chains: Set<[String]> = []
            for backtrace in state.withLock({ Array($0.backtraces.values) }) {
                let frames = backtrace.symbolicated(with: Self.images, options: .useSymbolCache)?.frames
                let chain = Self.chain(try #require(frames).compactMap(\.symbol).reversed())
                if let first = chain.firstIndex(of: start), !chain.contains(Self.sweep) {
                    chains.insert(Array(chain[first...]))
                }
            }
            let lengths = chains.sorted { $0.count > $1.count }
            let longest = try #require(lengths.first)
            #expect(longest.count <= limit, "\(longest.count): \(longest.joined(separator: " > "))")
            for name in names { #expect(chains.contains { $0.contains(name) }, "\(name) is in no chain") }
            if ProcessInfo.processInfo.environment["LOCKBOX_CALL_CHAINS"] != nil {
                for chain in lengths { print("\(start) \(chain.count): \(chain.joined(separator: " > "))") }
            }
        }

        /// Removes what killed writers left, when the store is opened: no part of the call.
        private static let sweep = "Leftovers.sweep"

        /// These run a closure, in which the code goes on where it stands: under a lock, with another error, or once more after
        /// descriptors ran out or a folder was removed.
        private static let closureRunners: Set = [
            "Lock.withLock", "Protected.withLock", "KernelKeyring.withLock",
            "KeyStore.oneByOne", "KeyStore.mappingErrors", "StoreFolders.sparingDescriptors",
            "StoreFolders.followingRemovals",
        ]

        /// The functions, without those that the compiler makes. A closure belongs to the function that it stands in, and all of
        /// `SystemCalls` counts as one.
        ///
        /// - Parameter symbols: The public call first.
        private static func chain(_ symbols: [SymbolicatedBacktrace.Symbol]) -> [String] {
            var chain: [String] = []
            for symbol in symbols where symbol.rawName.contains("Lockbox") {
                if symbol.rawName.hasPrefix("$s12LockboxTests") { continue }
                // A convenience initializer is all in the one that allocates.
                if symbol.isSwiftThunk, !symbol.rawName.hasSuffix("fC") { continue }
                // As "closure #1 in static Type.function<A>(label:)".
                let parts = symbol.name.components(separatedBy: " in ")
                var name = String(parts.last!.prefix { $0 != "(" && $0 != "<" })
                if name.hasPrefix("static ") { name.removeFirst("static ".count) }
                if name.hasPrefix("SystemCalls.") { name = "SystemCalls" }
                name.replace("__allocating_init", with: "init")
                let isSame = name == chain.last && (name == "SystemCalls" || name.hasSuffix(".init"))
                let isClosure =
                    parts.count > 1 && (parts[0].contains("closure #") || parts[0].hasPrefix("$defer"))
                if isSame || isClosure && chain.contains(name) { continue }
                if parts.count > 1, !isClosure { name = parts[0] }
                if !closureRunners.contains(name), !name.hasSuffix(".__deallocating_deinit") {
                    chain.append(name)
                }
            }
            return chain
        }
    }
#endif
