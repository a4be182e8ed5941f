package sandbox

import "strings"

// Asks describes what the table allows, for a person to decide on: files that the extension reads and writes, and
// what it reaches. A nil table allows everything.
func (t *Table) Asks() []string {
	if t == nil {
		return []string{
			"reads and writes all files that you may",
			"reaches every host",
			"sees the other programs that run as you",
		}
	}
	var asks []string
	for _, list := range []struct {
		verb  string
		names []string
	}{{"reads", t.Read}, {"reads and writes", t.Write}} {
		for _, name := range list.names {
			asks = append(asks, list.verb+" "+place(name))
		}
	}
	if len(asks) == 0 {
		asks = []string{"reads its own folder alone"}
	}
	switch t.Net.Word() {
	case NetNone:
		asks = append(asks, "has no network")
	case NetLoopback:
		asks = append(asks, "has a loopback interface of its own, and no other network")
	default:
		asks = append(asks, "reaches "+strings.Join(t.Net, ", ")+" and nothing else")
	}
	if t.BestEffort {
		asks = append(asks, "starts even where the system cannot enforce that (best_effort)")
	}
	return asks
}

func place(name string) string {
	switch rest, own := strings.CutPrefix(name, State); {
	case own && rest == "":
		return "its state directory"
	case own:
		return rest[1:] + " in its state directory"
	case name == "~":
		return "your home directory (~)"
	case name[0] == '/' || name[0] == '~':
		return name
	}
	return name + " in its own folder"
}
