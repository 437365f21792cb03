#if SecretService
    @_spi(Extensions) import LockboxCore
    import LockboxPlatform

    extension SecretObjects {
        /// Reads or changes the properties of an object.
        func properties(of object: SecretObject, _ call: BusCall) throws -> BusAnswer {
            switch call.member {
            case "Get":
                let arguments = try call.arguments("ss")
                _ = try arguments.text()
                let name = try arguments.text()
                guard let property = try property(name, of: object) else { throw Self.noProperty(name) }
                return { try $0.append(property) }
            case "GetAll":
                _ = try call.arguments("s")
                var properties: [String: BusProperty] = [:]
                for name in ["Attributes", "Collections", "Created", "Items", "Label", "Locked", "Modified"] {
                    properties[name] = try property(name, of: object)
                }
                return { [properties] in try $0.append(properties) }
            case "Set":
                let arguments = try call.arguments("ssv")
                _ = try arguments.text()
                try set(arguments.text(), of: object, to: arguments)
                return { _ in }
            default: throw BusError.noMethod(call)
            }
        }

        private static func noProperty(_ name: String) -> BusError {
            .invalidArguments("There is no property \(name) that can be used so.")
        }

        /// Returns nil if the object has no such property.
        private func property(_ name: String, of object: SecretObject) throws -> BusProperty? {
            switch object {
            case .service: name == "Collections" ? .paths(try collections.map(\.path)) : nil
            case .collection(let collection): try property(name, of: collection)
            case .item(let item): try property(name, of: item)
            case .session: nil
            }
        }

        private func property(_ name: String, of collection: Collection) throws -> BusProperty? {
            switch name {
            case "Items": .paths(try collection.items().map(\.path))
            case "Label": .text(try collection.label)
            case "Locked": .flag(try collection.isLocked)
            case "Created": .seconds(try collection.attributes?.created)
            case "Modified": .seconds(try collection.attributes?.modified)
            default: nil
            }
        }

        private func property(_ name: String, of item: Item) throws -> BusProperty? {
            switch name {
            case "Attributes": .texts(item.secretAttributes)
            case "Label": .text(item.attributes.label ?? "")
            case "Locked": .flag(try item.collection.isLocked)
            case "Created": .seconds(item.attributes.created)
            case "Modified": .seconds(item.attributes.modified)
            default: nil
            }
        }

        /// - Parameter arguments: The new value comes next.
        private func set(_ name: String, of object: SecretObject, to arguments: BusMessage) throws {
            switch (object, name) {
            case (.collection(let collection), "Label"):
                let label = try arguments.variant(of: "s") { try arguments.text() }
                try collection.setLabel(label)
                signal(
                    "CollectionChanged",
                    collection.path,
                    from: SecretPath.root,
                    SecretObject.service.interface
                )
                signalChange(of: ["Label": .text(label)], collection.path, object.interface)
            case (.item(let item), "Label"):
                let label = try arguments.variant(of: "s") { try arguments.text() }
                try item.change(nil, WriteOptions(label: .set(label)))
                signalChange(of: ["Label": .text(label)], item.path, object.interface)
                signal("ItemChanged", item)
            case (.item(let item), "Attributes"):
                let attributes = try arguments.variant(of: "a{ss}") { try arguments.texts() }
                try item.setAttributes(attributes)
                signalChange(of: ["Attributes": .texts(attributes)], item.path, object.interface)
                signal("ItemChanged", item)
            default: throw Self.noProperty(name)
            }
        }
    }

    extension BusProperty {
        /// Since 1970; 0 for a date that is not known.
        fileprivate static func seconds(_ date: Date?) -> BusProperty {
            .number(UInt64(clamping: Int64((date ?? Date(timeIntervalSince1970: 0)).timeIntervalSince1970)))
        }
    }
#endif
