// Package audit writes a record of every exchange to a file of JSON lines. Each line holds
// the hash of the line before it, so that a changed, removed or inserted line is detected.
//
// [Log.Append] passes a record to a goroutine that writes all pending records with one
// write and one fsync. A crash can lose these records:
//
//   - When the process dies, those of about the last millisecond, which were not
//     written.
//   - When the machine dies, also those written since the last completed fsync: on a
//     healthy disk, those of some milliseconds.
//
// After such a crash the last line may be torn. The next [Open] removes it and adds a
// record that says so.
//
// A request is recorded before it is sent, as an intent, so that a call in flight at the death
// of the process is in the log: [Read] and [Verify] pair intents with outcomes.
//
// A chain does not show that its end was removed, or rewritten with new hashes. So the hash of
// the last record also goes to the log of the process ([Options].Anchor), and [VerifyExpecting]
// looks for it.
package audit
