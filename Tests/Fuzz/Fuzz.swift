// What libFuzzer calls. Scripts/fuzz compiles it together with the library, as the sanitizers of one program have to be
// the same everywhere. LOCKBOX_FUZZER names the parsers: records or legacy.

import Foundation

private let isLegacy = ProcessInfo.processInfo.environment["LOCKBOX_FUZZER"] == "legacy"

@_cdecl("LLVMFuzzerTestOneInput")
func fuzz(_ start: UnsafePointer<UInt8>, _ count: Int) -> CInt {
    let bytes = Array(UnsafeBufferPointer(start: start, count: count))
    guard let kind = bytes.first else { return 0 }
    let input = Array(bytes.dropFirst())
    isLegacy ? fuzzLegacy(Int(kind), input) : fuzzRecords(Int(kind), input)
    return 0
}

/// The corpus is the last argument. It can be added to before libFuzzer reads it.
@_cdecl("LLVMFuzzerInitialize")
func prepare(_ count: UnsafeMutablePointer<CInt>, _ arguments: UnsafeMutableRawPointer) -> CInt {
    if isLegacy, CommandLine.arguments.count > 1, let folder = CommandLine.arguments.last {
        writeLegacySeeds(to: folder)
    }
    return 0
}
