package import LockboxPlatform

extension Sequence<UInt8> {
    /// Two digits for each byte.
    package var hexadecimal: String {
        map { ($0 < 16 ? "0" : "") + String($0, radix: 16) }.joined()
    }
}

extension Data {
    /// Nil unless these are two digits for each byte.
    package init?(hexadecimal text: String) {
        guard text.utf8.count.isMultiple(of: 2), text.utf8.allSatisfy({ UInt8(ascii: "0") <= $0 }) else {
            return nil
        }
        self.init()
        var rest = text[...]
        while !rest.isEmpty {
            guard let byte = UInt8(rest.prefix(2), radix: 16) else { return nil }
            append(byte)
            rest = rest.dropFirst(2)
        }
    }
}
