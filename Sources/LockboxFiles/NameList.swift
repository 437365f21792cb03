import LockboxCore

/// Names in a folder, in little more memory than their bytes: there may be a million.
package struct NameList: Sequence {
    /// Each followed by a zero.
    private var bytes: [UInt8] = []

    package init() {}

    /// `.` and `..` are left out.
    package mutating func append(_ name: Slice<UnsafeRawBufferPointer>) {
        let dot = UInt8(ascii: ".")
        if name.elementsEqual([dot]) || name.elementsEqual([dot, dot]) { return }
        bytes.append(contentsOf: name)
        bytes.append(0)
    }

    /// Adds those that are not here yet.
    package mutating func formUnion(_ other: NameList) {
        let known = Set(self)
        for name in other where !known.contains(name) {
            bytes.append(contentsOf: name.utf8)
            bytes.append(0)
        }
    }

    /// A name that is not UTF-8 is none of ours, and is none of ours with the characters that are put in here either.
    package func makeIterator() -> AnyIterator<String> {
        var start = 0
        return AnyIterator {
            guard let end = bytes[start...].firstIndex(of: 0) else { return nil }
            defer { start = end + 1 }
            return String(decoding: bytes[start..<end], as: UTF8.self)
        }
    }
}
