// Package jsonrpc multiplexes JSON-RPC 2.0 over any message transport. It knows
// none of our methods; payloads stay raw.
//
// A [Conn] is one end of a conversation. Its owner runs [Conn.Serve], which reads
// until the conversation ends; any number of goroutines use [Conn.Call] and
// [Conn.Notify] meanwhile:
//
//	caller ── Call ──> Transport.Write ──> peer
//	caller <─ one channel send ── Serve <── Transport.Read <── peer
//
// Calls cost no goroutine: the caller writes its own frame and waits for one
// channel send from the reader. What the peer asks or tells goes, in this order,
// to the call it names ([Options].Token, [CallOptions].OnMessage), else to
// [Options].Handle or [Options].Notified.
//
// [NewLineTransport] frames messages as lines, one JSON object each. Frames are
// judged once and strictly: see [Decode].
package jsonrpc
