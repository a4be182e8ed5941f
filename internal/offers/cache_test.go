package offers

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/exthost/exthost/protocol"
	"github.com/exthost/exthost/runtime"
)

func offerOf(key string, descriptors ...string) *Offer {
	o := &Offer{Key: key, Handshake: runtime.Handshake{Protocol: "mcp", Era: "2025-11-25", Capabilities: json.RawMessage(`{ "tools":{}}`)}}
	for _, text := range descriptors {
		var name struct{ Name string }
		_ = json.Unmarshal([]byte(text), &name)
		o.Handshake.Tools = append(o.Handshake.Tools, protocol.Tool{Name: name.Name, Raw: json.RawMessage(text)})
	}
	return o
}

// An offer is the same after a restart, byte for byte, and its changes are counted
// from the offer before.
func TestKnown(t *testing.T) {
	cache := NewCache(t.TempDir())
	known, err := cache.Open("x")
	if err != nil || known.Last() != nil {
		t.Fatalf("an empty cache: %+v, %v", known.Last(), err)
	}
	first := offerOf("1", `{"name":"a", "description":"<b>","n":12345678901234567890}`)
	if changes, err := known.Update(first); err != nil || changes != nil {
		t.Errorf("the first offer: %v, %v", changes, err)
	}
	known, err = cache.Open("x")
	if diff := cmp.Diff(first, known.Last()); err != nil || diff != "" {
		t.Errorf("after a restart: %v, %s", err, diff)
	}
	for _, tt := range []struct {
		name   string
		now    *Offer
		want   string
		stored bool
	}{
		{"the same", offerOf("1", string(first.Handshake.Tools[0].Raw)), "", false},
		{"another key", offerOf("2", string(first.Handshake.Tools[0].Raw)), "", true},
		{"another tool", offerOf("2", `{"name":"b"}`), `tool "b" is new; tool "a" is gone`, true},
	} {
		if err := cache.remove("x"); err != nil {
			t.Fatal(err)
		}
		changes, err := known.Update(tt.now)
		if got := Describe(changes); err != nil || got != tt.want || known.Last() != tt.now {
			t.Errorf("%s: %q, %v", tt.name, got, err)
		}
		if stored, err := cache.Load("x"); err != nil || (stored != nil) != tt.stored {
			t.Errorf("%s: stored %+v, %v", tt.name, stored, err)
		}
	}
}

// An offer that cannot be stored counts in this process, and leaves no old file.
func TestKnownTooLarge(t *testing.T) {
	cache := NewCache(t.TempDir())
	known, err := cache.Open("x")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := known.Update(offerOf("1", `{"name":"a"}`)); err != nil {
		t.Fatal(err)
	}
	large := offerOf("1", `{"name":"a","description":"`+strings.Repeat("x", maxRecord)+`"}`)
	if changes, err := known.Update(large); err == nil || len(changes) != 1 || known.Last() != large {
		t.Errorf("%d changes, %v", len(changes), err)
	}
	if stored, err := cache.Load("x"); stored != nil || err != nil {
		t.Errorf("the old file: %+v, %v", stored, err)
	}
}

// A damaged file is an error of Open, which returns an empty Known beside it.
func TestKnownDamaged(t *testing.T) {
	cache := NewCache(t.TempDir())
	if err := cache.Store("x", offerOf("1", `{"name":"a"}`)); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(string(cache), "x.json"), []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	known, err := cache.Open("x")
	if err == nil || known == nil || known.Last() != nil {
		t.Fatalf("%+v, %v", known, err)
	}
	if changes, err := known.Update(offerOf("1", `{"name":"b"}`)); err != nil || changes != nil {
		t.Errorf("the next offer: %v, %v", changes, err)
	}
}
