import Foundation
import Testing

func readBytes(_ path: String) throws -> [UInt8] { [UInt8](try Data(contentsOf: URL(fileURLWithPath: path))) }

/// In place, so that owner and mode stay.
func overwrite(_ path: String, _ bytes: [UInt8]) throws {
    let descriptor = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0o600)
    try #require(descriptor >= 0)
    defer { close(descriptor) }
    try #require(write(descriptor, bytes, bytes.count) == bytes.count)
}

/// Writes the keybag or the device key, and its copy.
func overwriteBoth(_ path: String, _ bytes: [UInt8]) throws {
    for path in [path, path + "-copy"] { try overwrite(path, bytes) }
}

/// Removes the keybag or the device key, and its copy.
func removeBoth(_ path: String) throws {
    for path in [path, path + "-copy"] { try FileManager.default.removeItem(atPath: path) }
}

/// The last byte is of a signature or a tag, in an item and in a keybag.
func flipLastByte(of path: String) throws {
    var bytes = try readBytes(path)
    bytes[bytes.count - 1] ^= 1
    try overwrite(path, bytes)
}

/// Damages the keybag and its copy.
func flipLastBytes(of path: String) throws {
    for path in [path, path + "-copy"] { try flipLastByte(of: path) }
}
