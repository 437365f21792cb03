#if TPM
    import LockboxStore
    import LockboxTPM
    import Testing

    /// However a program prints a public value, it shows neither a secret nor a closure.
    struct PrintingTests {
        @Test("Promise 7: no way of printing a public value shows a secret, a key or a closure")
        func noWayOfPrintingShowsASecret() {
            let pins: [PasscodeSource] = [.value("hunter2"), .closure { Array("hunter2".utf8) }]
            let samples: [String: [Any]] = [
                "TPMUnlock": pins.map { TPMUnlock(pin: $0) },
                "TPMCounter": [TPMCounter()],
            ]
            expectPrintingHides(["hunter2"], in: samples)
        }
    }
#endif
