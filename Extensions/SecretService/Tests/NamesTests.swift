#if SecretService
    import Testing

    @testable import LockboxSecretService

    struct NamesTests {
        @Test("Attributes with any names and texts come back, and Lockbox's own stay apart")
        func attributes() {
            let attributes = [
                "": "empty name", "service": "", "lockbox.claim": "1", "lockbox.escaped.": "2",
                "lockbox.escaped.x": "3",
                "lockbox.content-type": "4", "lockbox": "5",
                "xdg:schema": "org.gnome.keyring.NetworkPassword", "ä": "ö",
            ]
            let searchable = AttributeNames.encode(attributes, contentType: "text/html")
            #expect(!searchable.keys.contains(""))
            #expect(searchable["lockbox.claim"] == nil)
            #expect(searchable["service"] == "")
            #expect(AttributeNames.decode(searchable) == attributes)
            #expect(AttributeNames.contentType(of: searchable) == "text/html")
            // A search is for the names as they are stored.
            let found = AttributeNames.encode(attributes)
            #expect(found.allSatisfy { searchable[$0.key] == $0.value })
            #expect(found.count == attributes.count)
        }

        @Test("The usual content type is not stored")
        func contentType() {
            #expect(AttributeNames.encode(["a": "b"], contentType: "text/plain") == ["a": "b"])
            #expect(AttributeNames.contentType(of: [:]) == "text/plain")
        }

        @Test(
            "Every key has a path, and every path at most one key",
            arguments: ["token", "a/b", "_61", "ä\n", "0123"]
        )
        func paths(_ key: String) {
            let element = SecretPath.element(of: key)
            #expect(element.wholeMatch(of: /_[0-9a-f]+/) != nil)
            #expect(SecretPath.key(of: element[...]) == key)
            let own = SecretPath.newElement
            #expect(SecretPath.element(of: own) == own)
            #expect(SecretPath.key(of: own[...]) == own)
            for other in [
                "", "_", "_6", "_zz", "_ff", "_6A", "token",
                "_" + own.utf8.map { String($0, radix: 16) }.joined(),
            ] {
                #expect(SecretPath.key(of: other[...]) == nil)
            }
        }
    }
#endif
