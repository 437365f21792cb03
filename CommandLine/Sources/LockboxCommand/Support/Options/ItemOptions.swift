import ArgumentParser
import Lockbox

/// The attributes of an item that a command changes. Those that are not given keep their values.
struct ItemOptions: ParsableArguments {
    @Option(
        name: .customLong("class"),
        help: "When the value can be read. A new item's default: whenUnlocked."
    )
    var itemClass: ItemClass?

    @Option(
        help: """
            When the item expires: a time span such as 8h or 7d, a date such as 2030-12-24 (midnight, local time) or \
            2030-12-24T12:00:00Z, or never.
            """
    )
    var expires: String?

    @Option(help: "A short text for people. Not for secrets.")
    var label: String?

    @Flag(help: "Remove the label.")
    var noLabel = false

    @Option(help: "A longer text for people. Not for secrets.")
    var comment: String?

    @Flag(help: "Remove the comment.")
    var noComment = false

    @Option(
        name: .customLong("attribute"),
        help: """
            A text that the item can be found by, as NAME=TEXT. Can be repeated. Replaces all existing ones. Not \
            for secrets.
            """
    )
    var attributes: [AttributePair] = []

    @Flag(help: "Remove all searchable attributes.")
    var noAttributes = false

    func validate() throws {
        if label != nil && noLabel { throw ValidationError("Give --label or --no-label, not both.") }
        if comment != nil && noComment { throw ValidationError("Give --comment or --no-comment, not both.") }
        if !attributes.isEmpty && noAttributes {
            throw ValidationError("Give --attribute or --no-attributes, not both.")
        }
        if Set(attributes.map(\.name)).count < attributes.count {
            throw ValidationError("Two --attribute options have the same name. Give each name only once.")
        }
    }

    var isEmpty: Bool {
        itemClass == nil && expires == nil && label == nil && comment == nil && attributes.isEmpty
            && !noLabel && !noComment && !noAttributes
    }

    func changes(value: ArchivedValue? = nil, policy: WritePolicy, now: Date) throws -> ItemChanges {
        ItemChanges(
            value: value,
            options: WriteOptions(
                accessibility: itemClass?.accessibility,
                expires: try expires.map { try expiry($0, now) } ?? .automatic,
                label: change(label, noLabel),
                comment: change(comment, noComment),
                attributes: change(attributes.isEmpty ? nil : attributes.dictionary, noAttributes),
                policy: policy
            ),
            modified: now
        )
    }

    private func change<Value>(_ value: Value?, _ isRemoved: Bool) -> AttributeChange<Value> {
        isRemoved ? .removed : value.map(AttributeChange.set) ?? .unchanged
    }

    private func expiry(_ text: String, _ now: Date) throws -> Expiry {
        if text == "never" { return .never }
        if let date = Lifetime.end(text, now: now), date > now { return .at(date) }
        throw Failure(
            .usage,
            "--expires takes a time span such as 8h or 7d, a future date such as 2030-12-24, or never."
        )
    }
}
