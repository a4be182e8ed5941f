// Package audit keeps the record of every exchange: JSON lines in a file, each of
// which carries the hash of the one before it, so that a line that was changed,
// removed or put in later shows.
//
// [Log.Append] hands a record to a goroutine that writes what has come in
// meanwhile with one write and one fsync. What a crash can lose:
//
//   - When the process dies, the records of about the last millisecond, which it
//     had not written yet.
//   - When the machine dies, also those written since the last fsync ended, on a
//     healthy disk some milliseconds.
//
// A line is written whole or, after such a crash, torn: the next [Open] cuts the
// torn line off and says so in a record of its own. A chain cannot show that its
// end was cut off, or written anew with new hashes; compare [Report] with one that
// was kept elsewhere for that.
package audit
