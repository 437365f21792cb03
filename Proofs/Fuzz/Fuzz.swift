// The entry of libFuzzer. Scripts/fuzz compiles it together with the library, as the sanitizers of one program have to be
// the same everywhere. LOCKBOX_FUZZER names the parsers: records, sources or gateway.

import Foundation

private let fuzzer = ProcessInfo.processInfo.environment["LOCKBOX_FUZZER"]

@_cdecl("LLVMFuzzerTestOneInput")
func fuzz(_ start: UnsafePointer<UInt8>, _ count: Int) -> CInt {
    let bytes = Array(UnsafeBufferPointer(start: start, count: count))
    guard let kind = bytes.first.map(Int.init) else { return 0 }
    let input = Array(bytes.dropFirst())
    switch fuzzer {
    case "records": fuzzRecords(kind, input)
    case "sources": fuzzSources(kind, input)
    case "gateway": fuzzGateway(kind, input)
    default: fatalError("there is no such fuzzer")
    }
    return 0
}

/// The corpus is the last argument. It can be added to before libFuzzer reads it.
@_cdecl("LLVMFuzzerInitialize")
func prepare(_ count: UnsafeMutablePointer<CInt>, _ arguments: UnsafeMutableRawPointer) -> CInt {
    if CommandLine.arguments.count > 1, let folder = CommandLine.arguments.last {
        switch fuzzer {
        case "sources": writeSourceSeeds(to: folder)
        case "gateway": writeGatewaySeeds(to: folder)
        default: break
        }
    }
    return 0
}
