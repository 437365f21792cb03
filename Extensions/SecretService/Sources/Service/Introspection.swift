#if SecretService
    /// The interfaces of an object in XML, of which some clients make their methods.
    extension SecretObject {
        var introspection: String {
            let members =
                switch self {
                case .service: Self.serviceMembers
                case .collection: Self.collectionMembers
                case .item: Self.itemMembers
                case .session: [Self.method("Close")]
                }
            return Self.describe(interface, members) + Self.common
        }

        private static let serviceMembers = [
            method("OpenSession", ["s", "v"], gives: ["v", "o"]),
            method("CreateCollection", ["a{sv}", "s"], gives: ["o", "o"]),
            method("SearchItems", ["a{ss}"], gives: ["ao", "ao"]),
            method("Unlock", ["ao"], gives: ["ao", "o"]), method("Lock", ["ao"], gives: ["ao", "o"]),
            method("GetSecrets", ["ao", "o"], gives: ["a{o(\(Secret.type))}"]),
            method("ReadAlias", ["s"], gives: ["o"]), method("SetAlias", ["s", "o"]),
            property("Collections", "ao"), signal("CollectionCreated"), signal("CollectionDeleted"),
            signal("CollectionChanged"),
        ]

        private static let collectionMembers = [
            method("Delete", gives: ["o"]), method("SearchItems", ["a{ss}"], gives: ["ao"]),
            method("CreateItem", ["a{sv}", "(\(Secret.type))", "b"], gives: ["o", "o"]),
            property("Items", "ao"), property("Label", "s", "readwrite"), property("Locked", "b"),
            property("Created", "t"), property("Modified", "t"), signal("ItemCreated"), signal("ItemDeleted"),
            signal("ItemChanged"),
        ]

        private static let itemMembers = [
            method("Delete", gives: ["o"]), method("GetSecret", ["o"], gives: ["(\(Secret.type))"]),
            method("SetSecret", ["(\(Secret.type))"]), property("Attributes", "a{ss}", "readwrite"),
            property("Label", "s", "readwrite"), property("Locked", "b"), property("Created", "t"),
            property("Modified", "t"),
        ]

        /// The interface of every object.
        private static let common = describe(
            SecretObjects.properties,
            [
                method("Get", ["s", "s"], gives: ["v"]), method("GetAll", ["s"], gives: ["a{sv}"]),
                method("Set", ["s", "s", "v"]), signal("PropertiesChanged", ["s", "a{sv}", "as"]),
            ]
        )

        private static func describe(_ interface: String, _ members: [String]) -> String {
            "<interface name='\(interface)'>\(members.joined())</interface>"
        }

        private static func method(_ name: String, _ takes: [String] = [], gives: [String] = []) -> String {
            "<method name='\(name)'>\(arguments(takes, "in"))\(arguments(gives, "out"))</method>"
        }

        private static func property(_ name: String, _ type: String, _ access: String = "read") -> String {
            "<property name='\(name)' type='\(type)' access='\(access)'/>"
        }

        private static func signal(_ name: String, _ types: [String] = ["o"]) -> String {
            "<signal name='\(name)'>\(arguments(types, "out"))</signal>"
        }

        private static func arguments(_ types: [String], _ direction: String) -> String {
            types.map { "<arg type='\($0)' direction='\(direction)'/>" }.joined()
        }
    }
#endif
