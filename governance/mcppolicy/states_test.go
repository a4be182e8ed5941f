package mcppolicy

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
)

// The memory of exchanges without a response is bounded, and short exchanges do not evict
// those that wait long.
func TestStatesAreBounded(t *testing.T) {
	var s states
	s.put("patient", json.RawMessage(`{}`))
	for i := range 100_000 {
		id := fmt.Sprint("quick", i)
		s.put(id, json.RawMessage(`{}`))
		if s.take(id) == nil {
			t.Fatal("what was put is not there")
		}
	}
	if s.take("patient") == nil {
		t.Error("the patient exchange was forgotten")
	}
	big := json.RawMessage(`"` + strings.Repeat("x", maxStates/4) + `"`)
	for i := range 10 {
		s.put(fmt.Sprint(i), big)
	}
	if s.size > maxStates || s.byAge.Len() != 3 || len(s.byID) != 3 {
		t.Errorf("%d bytes, %d entries, %d ids", s.size, s.byAge.Len(), len(s.byID))
	}
	if s.take("9") == nil || s.take("0") != nil {
		t.Error("the oldest go first")
	}
	s.put("", big)
	s.put("8", json.RawMessage(`{}`)) // replaces the first
	s.take("7")
	if s.take("8") == nil || s.size != 0 || s.byAge.Len() != 0 {
		t.Errorf("%d bytes, %d entries left", s.size, s.byAge.Len())
	}
}
