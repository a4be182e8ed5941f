// Package jsonrpc multiplexes JSON-RPC 2.0 over any message transport. It does not know particular methods; payloads
// stay raw.
//
// A [Conn] is one end of a connection. Its owner runs [Conn.Serve], which reads until the connection ends. Any number
// of goroutines can use [Conn.Call] and [Conn.Notify] concurrently:
//
//	caller ── Call ──> Transport.Write ──> peer
//	caller <─ one channel send ── Serve <── Transport.Read <── peer
//
// Calls cost no goroutine: the caller writes its own frame and waits for one channel send from the
// reader. Requests and notifications of the peer go to the call that they name ([Options].Token,
// [CallOptions].OnMessage), else to [Options].Handle or [Options].Notified. Each request of the
// peer is answered in its own goroutine, so a slow answer delays nothing.
//
// [Decode] defines the valid frames. Package ndjson is the [Transport] over pipes.
package jsonrpc
