/// What was given to unlock the store.
final class GivenSecret {
    var isUsed = false
}
