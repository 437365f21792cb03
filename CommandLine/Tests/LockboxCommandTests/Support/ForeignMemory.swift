import Foundation
import Testing

/// The memory of another process. Only root can read it, if that process has forbidden it.
struct ForeignMemory {
    private let memory: CInt
    private let process: pid_t

    /// Nil if this process may not read it.
    init?(of process: pid_t) {
        memory = open("/proc/\(process)/mem", O_RDONLY | O_CLOEXEC)
        self.process = process
        if memory < 0 {
            print("skipped: only root can search the memory of lockbox")
            return nil
        }
    }

    /// How many of the places in the memory hold `text`.
    func count(of text: String) throws -> Int {
        let needle = Array(text.utf8)
        var count = 0
        try forEachChunk(overlap: needle.count - 1) { chunk in
            guard var next = chunk.baseAddress else { return }
            let end = next + (chunk.count - needle.count + 1)
            while next < end, let found = memchr(next, Int32(needle[0]), end - next) {
                if memcmp(found, needle, needle.count) == 0 { count += 1 }
                next = UnsafeRawPointer(found) + 1
            }
        }
        return count
    }

    /// The largest count of a piece of `text`: of what was freed, some may be overwritten.
    func count(ofAnyPieceOf text: String) throws -> Int {
        let size = text.count / 3
        return try [text.prefix(size), text.dropFirst(size).prefix(size), text.suffix(size)]
            .map { try count(of: String($0)) }.max()!
    }

    func close() { _ = Foundation.close(memory) }

    private func forEachChunk(overlap: Int, _ body: (UnsafeRawBufferPointer) -> Void) throws {
        var buffer = [UInt8](repeating: 0, count: 1 << 20)
        let maps =
            try FileHandle(forReadingFrom: URL(filePath: "/proc/\(process)/maps")).readToEnd() ?? Data()
        for line in String(decoding: maps, as: UTF8.self).split(separator: "\n") {
            let fields = line.split(separator: " ")
            guard fields[1].hasPrefix("rw") else { continue }
            let bounds = fields[0].split(separator: "-").map { Int($0, radix: 16)! }
            for start in stride(from: bounds[0], to: bounds[1], by: buffer.count - overlap) {
                let size = min(buffer.count, bounds[1] - start)
                let read = buffer.withUnsafeMutableBytes { pread(memory, $0.baseAddress, size, off_t(start)) }
                if read > 0 { buffer.withUnsafeBytes { body(UnsafeRawBufferPointer(rebasing: $0[..<read])) } }
            }
        }
    }
}

/// A pipe that is full: a process that writes into it waits until it is emptied.
final class FullPipe {
    let writing: CInt
    private let reading: CInt

    init() throws {
        var ends: [CInt] = [0, 0]
        try #require(pipe(&ends) == 0)
        (reading, writing) = (ends[0], ends[1])
        for end in ends { _ = fcntl(end, F_SETFD, FD_CLOEXEC) }
        let flags = fcntl(writing, F_GETFL)
        _ = fcntl(writing, F_SETFL, flags | O_NONBLOCK)
        let page = [UInt8](repeating: 0, count: 4096)
        while write(writing, page, page.count) > 0 {}
        _ = fcntl(writing, F_SETFL, flags)
        _ = fcntl(reading, F_SETFL, O_NONBLOCK)
    }

    deinit {
        close(reading)
        close(writing)
    }

    func empty() {
        var buffer = [UInt8](repeating: 0, count: 1 << 16)
        while read(reading, &buffer, buffer.count) > 0 {}
    }

    /// Whether the process waits in write(2) on standard output.
    func isAwaited(by process: pid_t) -> Bool {
        let call = (try? String(contentsOfFile: "/proc/\(process)/syscall", encoding: .utf8)) ?? ""
        #if arch(x86_64)
            return call.hasPrefix("1 0x1 ")
        #else
            return call.hasPrefix("64 0x1 ")
        #endif
    }
}
