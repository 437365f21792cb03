import LockboxCore

/// The names in a folder, stored compactly because there may be a million.
package struct NameList: Sequence {
    /// Each name is followed by a zero byte.
    private var bytes: [UInt8] = []

    package init() {}

    /// Leaves out `.` and `..`.
    package mutating func append(_ name: Slice<UnsafeRawBufferPointer>) {
        let dot = UInt8(ascii: ".")
        if name.elementsEqual([dot]) || name.elementsEqual([dot, dot]) { return }
        bytes.append(contentsOf: name)
        bytes.append(0)
    }

    /// Adds the names that are not in this list yet.
    package mutating func formUnion(_ other: NameList) {
        let known = Set(self)
        for name in other where !known.contains(name) {
            bytes.append(contentsOf: name.utf8)
            bytes.append(0)
        }
    }

    /// Names that are not UTF-8 are repaired. They are not Lockbox's, neither before nor after.
    package func makeIterator() -> AnyIterator<String> {
        var start = 0
        return AnyIterator {
            guard let end = bytes[start...].firstIndex(of: 0) else { return nil }
            defer { start = end + 1 }
            return String(decoding: bytes[start..<end], as: UTF8.self)
        }
    }
}
