package mcpext

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/exthost/exthost/internal/text/display"
	"github.com/exthost/exthost/internal/text/rawjson"
	"github.com/exthost/exthost/protocol"
)

const (
	// maxMerged is the max number of extensions in a Merged.
	maxMerged = 256
	// maxTotal bounds the identifiers and settings of all extensions together, in bytes. Every
	// server and client gets all of them at the start of a session.
	maxTotal = 128 << 10
	// maxShown bounds the names of settings in a problem, in bytes.
	maxShown = 200
)

// Source is the declaration of one server.
type Source struct {
	Server string
	List   []Extension
}

// Problem is a problem found while merging, in addition to those that [Read] reports.
type Problem struct{ Server, Text string }

// Merged is the merged declaration of several servers. It is immutable. The zero value is empty.
type Merged struct {
	List     []Extension
	Problems []Problem

	families map[string]*family // by name
	told     map[string]int     // number of problems per server
	size     int                // counted against maxTotal
}

// family is the methods that begin with the name of an extension, such as skills/list and skills/get of
// io.modelcontextprotocol/skills.
type family struct {
	id     string
	owners []owner
}

type owner struct {
	server   string
	settings json.RawMessage
}

// Merge merges the declarations of servers. If several servers declare an extension with different
// settings, the members are combined; if a member differs, the value of the first server is used.
func Merge(sources []Source) *Merged {
	m := &Merged{families: make(map[string]*family), told: make(map[string]int)}
	at := make(map[string]int)
	for _, s := range sources {
		for _, x := range s.List {
			n, known := at[x.ID]
			switch {
			case known:
				m.join(s.Server, &m.List[n], x.Settings)
			case len(m.List) == maxMerged:
				m.problem(s.Server,
					"the MCP extension %q is not offered to clients: all extensions together declare more than %d",
					x.ID, maxMerged)
				continue
			case m.size+len(x.ID)+len(x.Settings) > maxTotal:
				m.problem(s.Server,
					"the MCP extension %q is not offered to clients: the settings of all extensions together have "+
						"more than %d bytes", x.ID, maxTotal)
				continue
			default:
				m.size += len(x.ID) + len(x.Settings)
				at[x.ID] = len(m.List)
				m.List = append(m.List, x)
			}
			m.own(s.Server, x)
		}
	}
	return m
}

func (m *Merged) problem(server, format string, args ...any) {
	switch m.told[server]++; {
	case m.told[server] <= maxProblems:
		m.Problems = append(m.Problems, Problem{server, fmt.Sprintf(format, args...)})
	case m.told[server] == maxProblems+1:
		m.Problems = append(m.Problems,
			Problem{server, "more of its declarations of MCP extensions count in part or not at all"})
	}
}

// join merges more into the settings of x.
func (m *Merged) join(server string, x *Extension, more json.RawMessage) {
	if bytes.Equal(x.Settings, more) {
		return
	}
	merged, conflicts := joinObjects(x.Settings, more, "")
	if grown := len(merged) - len(x.Settings); len(merged) <= maxSettings && m.size+grown <= maxTotal {
		x.Settings = merged
		m.size += grown
	} else {
		conflicts = append(conflicts, "its settings as a whole")
	}
	if len(conflicts) > 0 {
		m.problem(server, "the MCP extension %q has other settings in an earlier extension, and clients are offered "+
			"those: %s", x.ID, display.Cut(strings.Join(conflicts, ", "), maxShown))
	}
}

// joinObjects adds the members of more to object, and returns the paths of conflicting members.
func joinObjects(object, more json.RawMessage, path string) (joined json.RawMessage, conflicts []string) {
	has, edits := maps.Collect(rawjson.Members(object)), make(map[string]json.RawMessage)
	for key, value := range rawjson.Members(more) {
		before, known := has[key]
		switch {
		case !known:
			has[key], edits[key] = value, value
		case rawjson.IsObject(before) && rawjson.IsObject(value):
			inner, found := joinObjects(before, value, path+key+".")
			has[key], edits[key] = inner, inner
			conflicts = append(conflicts, found...)
		case !rawjson.Equal(before, value):
			conflicts = append(conflicts, path+key)
		}
	}
	return rawjson.Edit(object, edits), conflicts
}

// core are the method prefixes of MCP itself and of the host, which no extension can own.
var core = []string{
	"completion", "elicitation", "governance", "hooks", "initialize", "logging", "notifications", "ping",
	"prompts", "resources", "roots", "sampling", "server", "subscriptions", "tasks", "tools",
}

func isCore(name string) bool {
	return slices.ContainsFunc(core, func(word string) bool { return strings.EqualFold(word, name) })
}

// own makes a server an owner of the methods of x. If extensions have the same name, the methods
// belong to the official one.
func (m *Merged) own(server string, x Extension) {
	_, name, _ := strings.Cut(x.ID, "/")
	switch f := m.families[name]; {
	case x.ID == protocol.ExtensionTasks: // tasks are served by the host
	case isCore(name):
		m.problem(server, "the methods %s/… are not those of the MCP extension %q: MCP itself has them", name, x.ID)
	case f == nil:
		m.families[name] = &family{x.ID, []owner{{server, x.Settings}}}
	case f.id == x.ID:
		f.owners = append(f.owners, owner{server, x.Settings})
	case strings.HasPrefix(x.ID, protocol.MetaPrefix):
		for _, o := range f.owners {
			m.problem(o.server, "the methods %s/… are those of %q, and not of %q", name, x.ID, f.id)
		}
		m.families[name] = &family{x.ID, []owner{{server, x.Settings}}}
	default:
		m.problem(server, "the methods %s/… are those of %q, and not of %q", name, f.id, x.ID)
	}
}

// MayOwn reports whether method can belong to an extension of MCP.
func MayOwn(method string) bool {
	name, verb, ok := strings.Cut(method, "/")
	return ok && name != "" && verb != "" && !isCore(name) || method == protocol.MethodDirectoryRead
}

// Owners returns, in order, the servers that declare the extension of a method.
func (m *Merged) Owners(method string) (servers []string) {
	name, _, _ := strings.Cut(method, "/")
	directories := method == protocol.MethodDirectoryRead
	if directories {
		name = "skills"
	}
	f := m.families[name]
	if f == nil || directories && f.id != protocol.ExtensionSkills {
		return nil
	}
	for _, o := range f.owners {
		if !directories || string(rawjson.Get(o.settings, "directoryRead")) == "true" {
			servers = append(servers, o.server)
		}
	}
	return servers
}
