// An HTTPS server whose certificate is renewed while it runs, without a restart. Its key is in no file.
//
//     cat fullchain.pem privkey.pem | swift run Server store     stores the identity, or a renewed one
//     swift run Server [PORT]                                    serves with it, and with what it becomes
//
// The identity is an item of the usual store, or of one in a cluster: see Store.swift. If the store is locked when the server
// starts, it waits until the operator unlocks it. Without an identity it does not start.

import Foundation
import Lockbox
import LockboxIdentities
import NIOCore
import NIOHTTP1
import NIOPosix
import NIOSSL

/// Not `print`, which holds text back if it goes to a pipe or the journal.
func log(_ text: String) { FileHandle.standardError.write(Data("server: \(text)\n".utf8)) }

@main struct Server {
    static func main() async {
        let arguments = CommandLine.arguments.dropFirst()
        do {
            if arguments.first == "store" {
                try await store(FileHandle.standardInput.readToEnd() ?? Data())
            } else {
                try await serve(port: arguments.first.flatMap { Int($0) } ?? 8443)
            }
        } catch {
            log("\(error)")
            exit(1)
        }
    }

    /// Refuses a key that does not belong to the certificate. The stored identity then stays.
    static func store(_ pem: Data) async throws {
        let identity = try IdentityItem(pem: String(decoding: pem, as: UTF8.self))
        try await lockbox().archiveObject(identity, forKey: identity.attributes(label: "web").key("tls"))
    }

    static func serve(port: Int) async throws {
        let identity = try await identity(lockbox())
        let context = try NIOSSLContext(
            configuration: .makeServerConfiguration(certificateReloader: identity.reloader)
        )
        let channel = try await ServerBootstrap(group: MultiThreadedEventLoopGroup.singleton)
            .serverChannelOption(.socketOption(.so_reuseaddr), value: 1)
            .childChannelInitializer { channel in
                channel.eventLoop.makeCompletedFuture {
                    let pipeline = channel.pipeline.syncOperations
                    try pipeline.addHandler(NIOSSLServerHandler(context: context))
                    try pipeline.configureHTTPServerPipeline()
                    try pipeline.addHandler(Answer())
                }
            }
            .bind(host: "127.0.0.1", port: port).get()
        log("listening on port \(channel.localAddress?.port ?? port)")
        try await withThrowingTaskGroup(of: Void.self) { group in
            group.addTask { try await identity.run() }
            group.addTask { try await channel.closeFuture.get() }
            try await group.next()
        }
    }

    /// Waits while the store is locked.
    private static func identity(_ lockbox: Lockbox) async throws -> ServerIdentity {
        var isWaiting = false
        while true {
            do {
                return try await ServerIdentity(lockbox, key: "tls")
            } catch LockboxError.interactionNotAllowed {
                if !isWaiting { log("waiting: the store is locked") }
                isWaiting = true
                try await Task.sleep(for: .seconds(1))
            }
        }
    }
}

/// The server's work: it says "ok".
private final class Answer: ChannelInboundHandler {
    typealias InboundIn = HTTPServerRequestPart
    typealias OutboundOut = HTTPServerResponsePart

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        guard case .end = unwrapInboundIn(data) else { return }
        let head = HTTPResponseHead(version: .http1_1, status: .ok, headers: ["content-length": "3"])
        context.write(wrapOutboundOut(.head(head)), promise: nil)
        context.write(wrapOutboundOut(.body(.byteBuffer(ByteBuffer(string: "ok\n")))), promise: nil)
        context.writeAndFlush(wrapOutboundOut(.end(nil)), promise: nil)
    }

    func errorCaught(context: ChannelHandlerContext, error: any Error) { context.close(promise: nil) }
}
