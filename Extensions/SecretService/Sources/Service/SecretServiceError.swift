#if SecretService
    @_spi(Extensions) import LockboxCore
    import LockboxPlatform

    /// A reason why the service cannot run.
    public struct SecretServiceError: Error, Sendable, Hashable, CustomStringConvertible {
        /// What failed and why, in one sentence.
        public let description: String

        init(_ what: String, _ code: CInt) {
            description = "\(what): \(String(cString: strerror(code)))."
        }

        init(_ description: String) { self.description = description }
    }

    extension BusError {
        /// The answer to a call that failed. It has no secret: no error of Lockbox has.
        init(_ error: any Error) {
            switch error {
            case let error as BusError: self = error
            case let error as LockboxError:
                switch error.code {
                case .interactionNotAllowed, .classNotProven: self = .locked
                case .invalidAttribute, .valueTooLarge: self = .tooMuch("\(error)")
                case .itemNotFound: self = .noObject("with this item")
                default: self = .failed(ShownText.line("\(error)"))
                }
            default: self = .failed("The call failed.")
            }
        }
    }
#endif
