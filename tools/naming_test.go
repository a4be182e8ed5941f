package tools

import (
	"fmt"
	"math/rand/v2"
	"regexp"
	"strings"
	"testing"

	"github.com/exthost/exthost/internal/testing/stormtest"
	"github.com/exthost/exthost/protocol"
)

func TestRegister(t *testing.T) {
	long := strings.Repeat("a", 60)
	for _, test := range []struct {
		extension, tool, want string
		taken                 []string
		renamed               bool
	}{
		{"weather", "forecast", "ext_weather_forecast", nil, false},
		{"owner.server", "get-x", "ext_owner_server_get-x", nil, false},
		{"a", "b.c/d e", "ext_a_b_c_d_e", nil, false},
		{"a", "é日", "ext_a___", nil, false},
		{"a", strings.Repeat("b", 58), "ext_a_" + strings.Repeat("b", 58), nil, false}, // 64 bytes
		{"a", strings.Repeat("b", 59), "ext_a_" + strings.Repeat("b", 49) + "_cf94f252", nil, false},
		{long, "tool", "ext_" + strings.Repeat("a", 51) + "_5312e995", nil, false},
		{"a", "b_c", "ext_a_b_c_662f0bbb", []string{"ext_a_b_c"}, true},
	} {
		t.Run(test.extension+"/"+test.tool, func(t *testing.T) {
			name, renamed, ok := Register(test.extension, test.tool, func(n string) bool {
				return len(test.taken) > 0 && n == test.taken[0]
			})
			if name != test.want || renamed != test.renamed || !ok {
				t.Errorf("register = %q, %v, %v; want %q, %v, true", name, renamed, ok, test.want, test.renamed)
			}
		})
	}
}

// A million hostile pairs get unique names: ids and tools with many separators, long common prefixes, and
// characters that become underscores.
func TestNamesOfHostilePairsAreUnique(t *testing.T) {
	n := stormtest.Sized(20_000, 1_000_000)
	valid := regexp.MustCompile(`^ext_[A-Za-z0-9_-]+$`)
	random := rand.New(rand.NewPCG(1, 2))
	part := func(alphabet string, max int) string {
		b := make([]byte, 1+random.IntN(max))
		for i := range b {
			b[i] = alphabet[random.IntN(len(alphabet))]
		}
		return string(b)
	}
	owner := make(map[string]uint32, n)
	var hashed, refused int
	for i := range n {
		extension, tool := part("a_.-", 6), part("ab_./ ", 9)
		if i%4 == 0 {
			extension += strings.Repeat("x", 40)
			tool = strings.Repeat("y", 30) + tool
		}
		name, renamed, ok := Register(extension, tool, func(n string) bool { _, taken := owner[n]; return taken })
		if len(name) > MaxName || i%100 == 0 && !valid.MatchString(name) {
			t.Fatalf("%q, %q: %q is no valid name", extension, tool, name)
		}
		if again := hashedName(extension, tool); renamed && again != name {
			t.Fatalf("%q, %q: %q, then %q", extension, tool, name, again)
		}
		_, taken := owner[name]
		if ok == taken {
			t.Fatalf("%q, %q: %q accepted although it is taken", extension, tool, name)
		}
		if !ok {
			refused++ // a repeated pair, or a hash collision: never registered twice
			continue
		}
		if renamed {
			hashed++
		}
		owner[name] = uint32(i)
	}
	if hashed == 0 || refused == 0 {
		t.Errorf("%d hashed and %d refused: the names were not hostile enough", hashed, refused)
	}
}

// Two tools with the same hashed name do not share it.
func TestCollidingHashesShareNoName(t *testing.T) {
	seen := map[string]string{}
	var first, second string
	for i := 0; second == ""; i++ {
		tool := fmt.Sprintf("%s%d", strings.Repeat("t", 80), i)
		name := hashedName("x", tool)
		first, second = seen[name], ""
		if first != "" {
			second = tool
		}
		seen[name] = tool
	}
	c, ds := NewCatalog(1, []Source{
		{Extension: "x", Tools: []protocol.Tool{{Name: first}, {Name: second}, {Name: "other"}}},
	}, nil)
	if len(c.Entries()) != 2 || codes(ds) != "tool_name_taken" {
		t.Fatalf("%d tools, diagnostics %v; want 2 and one tool_name_taken", len(c.Entries()), ds)
	}
	if e, ok := c.Lookup(hashedName("x", first)); !ok || e.Tool != min(first, second) {
		t.Errorf("the name belongs to %v, want the first in order", e)
	}
}

// codes joins the codes of diagnostics.
func codes(ds []protocol.Diagnostic) string {
	var list []string
	for _, d := range ds {
		list = append(list, d.Code)
	}
	return strings.Join(list, " ")
}
