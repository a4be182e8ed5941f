package toolsearch

import (
	"encoding/json"
	"fmt"
	"slices"

	"github.com/exthost/exthost/internal/listing/toolset"
	"github.com/exthost/exthost/internal/text/glob"
	"github.com/exthost/exthost/internal/text/rawjson"
	"github.com/exthost/exthost/tools"
)

// Listing is the configuration of lists of tools of all extensions.
type Listing struct {
	// what tools/list returns to a client of all extensions. all (default) lists every tool. search lists ext_find,
	// which finds tools by the words of a task, those that call them, and the favourites. auto is search if the list
	// would have more than search_above tokens, unless the client is known to load tools on demand
	Mode string `json:"mode" jsonschema:"enum=all,enum=search,enum=auto"`
	// what calls the tools that a search finds. split (default): ext_read, ext_write and ext_destroy, each the tools of
	// one risk, so that a client can ask its user before some alone. one: ext_call, all of them
	Call string `json:"call" jsonschema:"enum=split,enum=one"`
	// tokens of a list, as exthost tools list estimates them, above which auto searches; default 10000
	SearchAbove int `json:"search_above" jsonschema:"minimum=0"`
	// patterns of names such as ext_git_log of the tools that stay listed in mode search; at most 100 tools stay;
	// default: none
	Favourites []string `json:"favourites,omitempty"`
}

// The values of Listing.Mode.
const (
	ModeAll    = "all"
	ModeSearch = "search"
	ModeAuto   = "auto"
)

// The values of Listing.Call. The zero value is CallSplit.
const (
	CallSplit = "split"
	CallOne   = "one"
)

// DefaultListing returns the listing of a configuration without one.
func DefaultListing() Listing { return Listing{Mode: ModeAll, Call: CallSplit, SearchAbove: 10_000} }

const (
	maxPatterns   = 100
	maxFavourites = 100     // number of tools
	maxBytes      = 1 << 20 // of the descriptors of favourites
)

// Check returns the problems of l.
func (l *Listing) Check() (list []toolset.Problem) {
	if len(l.Favourites) > maxPatterns {
		list = append(list, toolset.Problem{
			Key:     "tools.favourites",
			Message: fmt.Sprintf("%d patterns are more than %d", len(l.Favourites), maxPatterns),
		})
	}
	for _, p := range l.Favourites {
		if err := glob.Check(p); err != nil {
			list = append(list,
				toolset.Problem{Key: "tools.favourites", Message: err.Error(), Hint: "such as ext_git_*"})
		}
	}
	return list
}

// deferring are the clients, by the name in clientInfo, that load definitions of tools on demand:
//   - Claude Code: https://code.claude.com/docs/en/mcp, "Scale with MCP tool search".
//   - Codex, whose MCP tools are all deferred since https://github.com/openai/codex/pull/29486, and
//     were from 100 tools on before.
//   - VS Code, which states the long name of its product (McpServerRequestHandler of microsoft/vscode)
//     and defers all tools but some 30: https://github.com/microsoft/vscode-docs/pull/9695.
var deferring = []string{"claude-code", "codex-mcp-client", "Visual Studio Code", "Visual Studio Code - Insiders"}

// defers reports whether a client is known to load definitions of tools on demand. A search by the host would get in
// the way of the client's own search.
func defers(clientInfo json.RawMessage) bool {
	name, _ := rawjson.Text(rawjson.Get(clientInfo, "name"))
	return slices.Contains(deferring, name)
}

// Searches reports whether a client that may see entries gets a search instead of a list of all. mode is a value of
// Listing.Mode.
func (l *Listing) Searches(mode string, clientInfo json.RawMessage, entries []*tools.Entry) bool {
	if mode != ModeAuto || defers(clientInfo) {
		return mode == ModeSearch
	}
	sum := 0
	for _, e := range entries {
		sum += e.Tokens()
	}
	return sum > l.SearchAbove
}

// Search returns the search tools that shows returns true for. Without ext_find, and without one that calls others,
// there is no search.
func (l *Listing) Search(shows func(*tools.Entry) bool) (list []*tools.Entry, ok bool) {
	finds := false
	for _, e := range Own().Entries() {
		if l.serves(e.Name) && shows(e) {
			list, finds = append(list, e), finds || e.Name == tools.FindName
		}
	}
	return list, finds && len(list) > 1
}

// List returns the list of a client in mode search: the search tools, the host's other tools, and the favourites.
// entries are the tools that the client may see.
func (l *Listing) List(search, entries []*tools.Entry) []*tools.Entry {
	list, kept, size := slices.Clone(search), 0, 0
	for _, e := range entries {
		if e.Extension == "" {
			list = append(list, e)
		} else if kept < maxFavourites && size+len(e.Descriptor) <= maxBytes && l.IsFavourite(e) {
			list, kept, size = append(list, e), kept+1, size+len(e.Descriptor)
		}
	}
	return list
}

// IsFavourite reports whether a tool stays listed in mode search.
func (l *Listing) IsFavourite(e *tools.Entry) bool {
	return slices.ContainsFunc(l.Favourites, func(p string) bool { return glob.Match(p, e.Registered()) })
}
