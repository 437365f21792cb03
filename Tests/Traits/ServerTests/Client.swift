import Foundation
import NIOCore
import NIOPosix
import NIOSSL
import NIOTLS

/// A client that trusts one authority. It never resumes a session, so each of its handshakes is a full one.
struct Client: Sendable {
    let port: Int
    private let context: NIOSSLContext

    init(port: Int, trusting authority: Authority) throws {
        self.port = port
        var configuration = TLSConfiguration.makeClientConfiguration()
        configuration.trustRoots = try authority.trust()
        configuration.certificateVerification = .fullVerification
        context = try NIOSSLContext(configuration: configuration)
    }

    /// Connects, verifies chain and name, and gets the answer to a request.
    ///
    /// - Returns: The server's certificate in DER.
    func visit() async throws -> Data {
        let connection = try await connect()
        let certificate = try await connection.request()
        try await connection.close()
        return certificate
    }

    func connect() async throws -> Connection {
        let handshake = MultiThreadedEventLoopGroup.singleton.any().makePromise(of: Data.self)
        let channel: any Channel
        do {
            channel = try await ClientBootstrap(group: MultiThreadedEventLoopGroup.singleton)
                .connectTimeout(.seconds(10))
                .channelInitializer { channel in
                    channel.eventLoop.makeCompletedFuture {
                        let pipeline = channel.pipeline.syncOperations
                        try pipeline.addHandler(
                            NIOSSLClientHandler(context: context, serverHostname: "localhost")
                        )
                        try pipeline.addHandler(Exchange(handshake))
                    }
                }
                .connect(host: "127.0.0.1", port: port).get()
        } catch {
            handshake.fail(error)
            throw error
        }
        return Connection(channel: channel, certificate: try await handshake.futureResult.get())
    }

    struct Connection: Sendable {
        let channel: any Channel
        let certificate: Data

        /// - Returns: The certificate of the handshake.
        @discardableResult
        func request() async throws -> Data {
            let answer = channel.eventLoop.makePromise(of: Void.self)
            try await channel.writeAndFlush(answer).get()
            try await answer.futureResult.get()
            return certificate
        }

        func close() async throws { try await channel.close().get() }
    }
}

/// Something is not as it should be.
struct Failure: Error, CustomStringConvertible {
    let description: String
    init(_ description: String) { self.description = description }
}

/// Promises are written: each stands for a request, and succeeds when its answer is there.
private final class Exchange: ChannelDuplexHandler {
    typealias InboundIn = ByteBuffer
    typealias OutboundIn = EventLoopPromise<Void>
    typealias OutboundOut = ByteBuffer

    private let handshake: EventLoopPromise<Data>
    private var answer: EventLoopPromise<Void>?
    private var received = ""
    private var limit: Scheduled<Void>?

    init(_ handshake: EventLoopPromise<Data>) { self.handshake = handshake }

    func channelActive(context: ChannelHandlerContext) {
        let channel = context.channel
        limit = context.eventLoop.scheduleTask(in: .seconds(10)) { [handshake] in
            handshake.fail(Failure("no handshake within 10 s"))
            channel.close(promise: nil)
        }
        context.fireChannelActive()
    }

    func userInboundEventTriggered(context: ChannelHandlerContext, event: Any) {
        guard case TLSUserEvent.handshakeCompleted = event else { return }
        limit?.cancel()
        do {
            let handler = try context.pipeline.syncOperations.handler(type: NIOSSLHandler.self)
            guard let certificate = handler.peerCertificate else { throw Failure("no certificate") }
            handshake.succeed(Data(try certificate.toDERBytes()))
        } catch { handshake.fail(error) }
    }

    func write(context: ChannelHandlerContext, data: NIOAny, promise: EventLoopPromise<Void>?) {
        answer = unwrapOutboundIn(data)
        let request = ByteBuffer(string: "GET / HTTP/1.1\r\nhost: localhost\r\n\r\n")
        context.write(wrapOutboundOut(request), promise: promise)
    }

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        received += String(buffer: unwrapInboundIn(data))
        guard received.hasSuffix("\r\n\r\nok\n") else { return }
        if received.hasPrefix("HTTP/1.1 200 OK\r\n") {
            answer?.succeed()
        } else {
            answer?.fail(Failure("another answer"))
        }
        answer = nil
        received = ""
    }

    func errorCaught(context: ChannelHandlerContext, error: any Error) {
        end(error)
        context.close(promise: nil)
    }

    func channelInactive(context: ChannelHandlerContext) { end(Failure("the connection ended")) }

    private func end(_ error: any Error) {
        limit?.cancel()
        handshake.fail(error)
        answer?.fail(error)
        answer = nil
    }
}
