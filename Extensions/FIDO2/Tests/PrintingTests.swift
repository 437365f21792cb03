#if FIDO2
    import LockboxFIDO2
    import LockboxStore
    import Testing

    /// However a program prints a public value, it shows neither a secret nor a closure.
    struct PrintingTests {
        @Test("Promise 7: no way of printing a public value shows a secret, a key or a closure")
        func noWayOfPrintingShowsASecret() {
            let pins: [PasscodeSource] = [.value("hunter2"), .closure { Array("hunter2".utf8) }]
            expectPrintingHides(["hunter2"], in: ["FIDO2Unlock": pins.map { FIDO2Unlock(pin: $0) }])
        }
    }
#endif
