import CProcess
import Lockbox

/// What somebody has typed without echo. It is kept in memory of its own, which is wiped when nothing uses it any more.
/// A String could not be wiped: nobody knows its copies.
final class TypedSecret: @unchecked Sendable {
    // Unchecked: only the terminal appends to it, before it passes it on.

    /// More than a terminal passes on in one line.
    private static let capacity = 4096

    private let buffer: UnsafeMutableRawBufferPointer
    private(set) var count = 0

    init() {
        buffer = .allocate(byteCount: Self.capacity, alignment: 4096)
        // If the limit of locked memory is reached, it may be swapped out.
        mlock(buffer.baseAddress!, buffer.count)
    }

    deinit {
        wipe_memory(buffer.baseAddress!, buffer.count)
        munlock(buffer.baseAddress!, buffer.count)
        buffer.deallocate()
    }

    var bytes: UnsafeRawBufferPointer { UnsafeRawBufferPointer(rebasing: buffer[..<count]) }

    /// Bytes beyond the capacity are dropped; so long a line is refused anyway.
    func append(_ byte: UInt8) {
        guard count < Self.capacity else { return }
        buffer[count] = byte
        count += 1
    }

    /// Whether it is UTF-8. Makes no String.
    var isText: Bool {
        var parser = Unicode.UTF8.ForwardParser()
        var rest = bytes.makeIterator()
        while true {
            switch parser.parseScalar(from: &rest) {
            case .valid: continue
            case .error: return false
            case .emptyInput: return true
            }
        }
    }

    func isEqual(to other: TypedSecret) -> Bool { bytes.elementsEqual(other.bytes) }

    /// As a passcode. The library wipes the bytes that it gets.
    var source: PasscodeSource { .bytes { [self] in Array(bytes) } }
}
