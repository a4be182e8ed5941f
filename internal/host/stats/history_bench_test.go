package stats

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/exthost/exthost/protocol"
	"github.com/exthost/exthost/status"
)

// BenchmarkEnd measures the recording of a call, alone and concurrently.
func BenchmarkEnd(b *testing.B) {
	e := Ended{
		CallEvent: status.CallEvent{
			Method:    protocol.MethodToolsCall,
			Extension: "notes",
			Tool:      "ext_notes_search",
			Caller:    "stdio:1-abcdefgh",
			Protocol:  "2025-11-25",
			Outcome:   status.OutcomeOK,
			Stages:    []status.Stage{{Name: status.StageQueue, Took: 1}, {Name: status.StageInstance, At: 1, Took: 2}},
		},
		At:         time.Now(),
		Entry:      true,
		Served:     100 * time.Microsecond,
		ClientInfo: json.RawMessage(`{"name":"client","version":"1"}`),
		Request:    json.RawMessage(`{"name":"ext_notes_search","arguments":{"query":"milk"}}`),
		Response:   json.RawMessage(`{"content":[{"type":"text","text":"` + strings.Repeat("x", 200) + `"}]}`),
	}
	b.Run("one", func(b *testing.B) {
		p := new(History)
		for b.Loop() {
			p.End(&e)
		}
	})
	b.Run("64", func(b *testing.B) {
		p := new(History)
		b.SetParallelism(32)
		b.RunParallel(func(pb *testing.PB) {
			e := e
			for pb.Next() {
				p.End(&e)
			}
		})
	})
}
