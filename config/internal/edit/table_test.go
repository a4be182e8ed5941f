package edit

import (
	"encoding/json"
	"strings"
	"testing"
)

func TestApplyTableChangesOneTable(t *testing.T) {
	path := []string{"server", "clients", "ada"}
	set := []Setting{{"token_hash", "sha256:aa"}, {"old_token_hash", nil}, {"since", "2030-01-31T12:00:00Z"}}
	const (
		block = "    ada:\n      token_hash: sha256:aa\n      since: \"2030-01-31T12:00:00Z\"\n"
		table = "[server.clients.ada]\ntoken_hash = \"sha256:aa\"\nsince = \"2030-01-31T12:00:00Z\"\n"
		flow  = "{token_hash: sha256:aa, since: \"2030-01-31T12:00:00Z\"}"
		short = "{ token_hash = \"sha256:aa\", since = \"2030-01-31T12:00:00Z\" }"
	)
	for _, tt := range []struct {
		name, file, before, after string
		set                       []Setting // nil: remove
	}{
		{"an empty file", "a.yaml", "", "server:\n  clients:\n" + block, set},
		{"only comments", "a.yaml", "# mine\n", "# mine\n\nserver:\n  clients:\n" + block, set},
		{"another section", "a.yaml", "log: {} # c", "log: {} # c\n\nserver:\n  clients:\n" + block, set},
		{"a section", "a.yaml", "server: # here\n  listen: a:1 # c\nlog: {}\n",
			"server: # here\n  clients:\n" + block + "  listen: a:1 # c\nlog: {}\n", set},
		{"a section without values", "a.yaml", "server:\nlog: {}\n", "server:\n  clients:\n" + block + "log: {}\n",
			set},
		{"clients", "a.yaml", "server:\n  clients:\n    # me\n    bob: {token_hash: sha256:bb}\n",
			"server:\n  clients:\n" + block + "    # me\n    bob: {token_hash: sha256:bb}\n", set},
		{"clients without values", "a.yaml", "server:\n  clients:\n  metrics: true\n",
			"server:\n  clients:\n" + block + "  metrics: true\n", set},
		{"clients in flow style", "a.yaml", "server:\n  clients: {bob: {}} # c\n",
			"server:\n  clients: {ada: " + flow + ", bob: {}} # c\n", set},
		{"no clients in flow style", "a.yaml", "server: {}\n", "server: {clients: {ada: " + flow + "}}\n", set},
		{"a file in flow style", "a.yaml", "{log: {level: info}}\n",
			"{server: {clients: {ada: " + flow + "}}, log: {level: info}}\n", set},
		{"JSON", "a.yaml", `{"server": {"listen": "a:1"}}`,
			`{"server": {clients: {ada: ` + flow + `}, "listen": "a:1"}}`, set},
		{"Windows", "a.yaml", "\xef\xbb\xbfserver:\r\n  listen: a:1\r\n",
			"\xef\xbb\xbfserver:\r\n" + strings.ReplaceAll("  clients:\n"+block, "\n", "\r\n") + "  listen: a:1\r\n",
			set},
		{"a new token", "a.yaml", "server:\n  clients:\n    ada:\n      token_hash: sha256:00 # c\n      toolset: x\n",
			"server:\n  clients:\n    ada:\n      token_hash: sha256:aa # c\n      since: \"2030-01-31T12:00:00Z\"\n " +
				"     toolset: x\n", set},
		{"a new token in quotes", "a.yaml",
			"server:\n  clients:\n    ada: {token_hash: 'sha256:00', old_token_hash: \"sha256:01\", toolset: x} # c\n",
			"server:\n  clients:\n    ada: {since: \"2030-01-31T12:00:00Z\", token_hash: sha256:aa, toolset: x} # c\n",
			set},
		{"no old token", "a.yaml",
			"server:\n  clients:\n    ada:\n      token_hash: sha256:00\n      old_token_hash: sha256:01 # old\n     " +
				" since: \"1\"\n",
			"server:\n  clients:\n    ada:\n      token_hash: sha256:aa\n      since: \"2030-01-31T12:00:00Z\"\n", set},
		{"no values", "a.yaml", "server:\n  clients:\n    ada: {}\n",
			"server:\n  clients:\n    ada: {since: \"2030-01-31T12:00:00Z\", token_hash: sha256:aa}\n", set},
		{"of two", "a.yaml", "server:\n  clients:\n    # first\n    ada:\n      token_hash: sha256:aa # c\n    # " +
			"second\n    bob: {}\n", "server:\n  clients:\n    # first\n    # second\n    bob: {}\n", nil},
		{"the only one", "a.yaml", "server:\n  clients:\n    ada:\n      token_hash: sha256:aa\nlog: {}\n",
			"server:\n  clients:\nlog: {}\n", nil},
		{"on a line", "a.yaml", "server:\n  clients:\n    ada: {token_hash: sha256:aa}\n    bob: {}",
			"server:\n  clients:\n    bob: {}", nil},
		{"out of a line", "a.yaml", "server: {clients: {bob: {}, ada: {token_hash: \"sha256:aa\"}}}\n",
			"server: {clients: {bob: {}}}\n", nil},
		{"the first of a line", "a.yaml", "server: {clients: {ada: {}, bob: {}}}\n", "server: {clients: {bob: {}}}\n",
			nil},

		{"an empty file", "a.toml", "", table, set},
		{"a section", "a.toml", "[server] # here\nlisten = \"a:1\"\n", "[server] # here\nlisten = \"a:1\"\n\n" + table,
			set},
		{"a table in a line", "a.toml", "server = { listen = \"a:1\" } # c\n",
			"server = { clients = { ada = " + short + " }, listen = \"a:1\" } # c\n", set},
		{"clients in a line", "a.toml", "[server]\nclients = { bob = {} }\n",
			"[server]\nclients = { ada = " + short + ", bob = {} }\n", set},
		{"no clients in a line", "a.toml", "[server]\nclients = {}\n", "[server]\nclients = { ada = " + short + " }\n",
			set},
		{"dotted keys", "a.toml", "server.listen = \"a:1\"\n", "server.listen = \"a:1\"\n\n" + table, set},
		{"a new token", "a.toml", "[server.clients.ada]\n  token_hash = 'sha256:00' # c\n  toolset = \"x\"\n[log]\n",
			"[server.clients.ada]\n  token_hash = \"sha256:aa\" # c\n  since = \"2030-01-31T12:00:00Z\"\n  toolset = " +
				"\"x\"\n[log]\n", set},
		{"a new token in a line", "a.toml",
			"[server.clients]\nada = { token_hash = \"sha256:00\", old_token_hash = \"sha256:01\" } # c\n",
			"[server.clients]\nada = { since = \"2030-01-31T12:00:00Z\", token_hash = \"sha256:aa\" } # c\n", set},
		{"a new token of dotted keys", "a.toml", "[server]\nclients.ada.token_hash = \"sha256:00\"\n",
			"[server]\nclients.ada.token_hash = \"sha256:aa\"\nclients.ada.since = \"2030-01-31T12:00:00Z\"\n", set},
		{"an empty one", "a.toml", "[server.clients.ada] # c\n",
			"[server.clients.ada] # c\ntoken_hash = \"sha256:aa\"\nsince = \"2030-01-31T12:00:00Z\"\n", set},
		{"of two", "a.toml", "[server.clients.ada]\n# c\ntoken_hash = \"sha256:aa\"\n\n# " +
			"second\n[server.clients.bob]\n", "\n# second\n[server.clients.bob]\n", nil},
		{"the last", "a.toml", "[log]\nlevel = \"info\"\n\n" + table, "[log]\nlevel = \"info\"\n", nil},
		{"on a line", "a.toml", "[server.clients]\nada = { token_hash = \"sha256:aa\" } # c\nbob = {}\n",
			"[server.clients]\nbob = {}\n", nil},
		{"out of a line", "a.toml", "server = { clients = { bob = {}, ada = { token_hash = \"}\" } } }\n",
			"server = { clients = { bob = {} } }\n", nil},
		{"of dotted keys", "a.toml",
			"[server]\nclients.ada.token_hash = \"sha256:aa\"\nclients.ada.since = \"x\"\nlisten = \"a:1\"\n",
			"[server]\nlisten = \"a:1\"\n", nil},
	} {
		t.Run(tt.file+"/"+tt.name, func(t *testing.T) {
			got, line, err := ApplyTable(tt.file, []byte(tt.before),
				Table{Path: path, Set: tt.set, Remove: tt.set == nil})
			if err != nil {
				t.Fatal(err)
			}
			if string(got) != tt.after {
				t.Errorf("got\n%s\nwant\n%s", got, tt.after)
			}
			if line == 0 {
				t.Error("no line")
			}
		})
	}
}

// Where the notation is not known, the result is an error and never a wrong file.
func TestUnknownNotationsAreRefused(t *testing.T) {
	path := []string{"server", "clients", "ada"}
	set := []Setting{{"token_hash", "sha256:aa"}}
	for _, tt := range []struct {
		name, file, before string
		set                []Setting // nil: remove
	}{
		{"a list", "a.yaml", "server: []\n", set},
		{"a text", "a.yaml", "server:\n  clients: x\n", set},
		{"an alias", "a.yaml", "x: &x {token_hash: a}\nserver:\n  clients:\n    ada: *x\n", set},
		{"a merge", "a.yaml", "x: &x\n  ada: {token_hash: a}\nserver:\n  clients:\n    <<: *x\n", nil},
		{"a folded text", "a.yaml", "server:\n  clients:\n    ada:\n      token_hash: >-\n        sha256:00\n", set},
		{"a long text", "a.toml", "[server.clients.ada]\ntoken_hash = \"\"\"\nsha256:00\"\"\"\n", set},
		{"no such", "a.toml", "", nil},
	} {
		t.Run(tt.file+"/"+tt.name, func(t *testing.T) {
			got, _, err := ApplyTable(tt.file, []byte(tt.before), Table{Path: path, Set: tt.set, Remove: tt.set == nil})
			if err == nil {
				t.Errorf("changed to\n%s", got)
			}
		})
	}
}

// Line ends other than \n are kept.
func TestLineBreaksAreKept(t *testing.T) {
	for _, end := range []string{"\r", "\u0085", "\u2028", "\u2029"} {
		within := "log: {file: \"x" + strings.Repeat(end, 3) + "y\"}\nserver:\n  clients: {ada: {token_hash: \"0\"}}"
		ends := strings.ReplaceAll("# mine\nserver:\n  listen: a:1\n", "\n", end)
		set := []Setting{{"token_hash", "1"}}
		for before, after := range map[string]string{
			within: strings.Replace(within, `"0"`, `"1"`, 1),
			ends:   ends + "\n  clients:\n    ada:\n      token_hash: \"1\"\n",
		} {
			got, _, err := ApplyTable("a.yaml", []byte(before),
				Table{Path: []string{"server", "clients", "ada"}, Set: set})
			if err != nil || string(got) != after {
				t.Errorf("%q became %q, %v", before, got, err)
			}
		}
		got, _, err := Apply("a.yaml", []byte(ends), List{Section: "server", Key: "x", Add: []string{"y"}})
		if err != nil || string(got) != ends+"\n  x: [\"y\"]\n" {
			t.Errorf("%q became %q, %v", ends, got, err)
		}
	}
}

// A file that other programs read as JSON remains JSON.
func TestJSONStaysJSON(t *testing.T) {
	path := []string{"server", "clients", "ada"}
	for _, before := range []string{
		`{}`, "{\n  \"log\": {\"level\": \"info\"}\n}\n", `{"server": {}}`,
		"{\n\t\"server\": {\n\t\t\"clients\": {\n\t\t\t\"bob\": {}\n\t\t}\n\t}\n}\n",
		`{"server":{"clients":{"ada":{}}}}`,
		`{"server":{"clients":{"ada":{"token_hash":"0","old_token_hash":"1","old_until":"2"},"bob":{}}}}`,
		`{"extensions":{"disabled":["a"]}}`, `{"extensions":{}}`,
	} {
		text := []byte(before)
		for n, table := range []Table{
			{
				Path: path,
				Set: []Setting{
					{"token_hash", "sha256:aa"},
					{"old_token_hash", "sha256:bb"},
					{"old_until", "2030-01-31T12:00:00Z"},
					{"since", "2030-01-31T12:00:00Z"},
				},
			},
			{
				Path: path,
				Set: []Setting{
					{"token_hash", "sha256:cc"},
					{"old_token_hash", nil},
					{"old_until", nil},
					{"since", "2031-01-31T12:00:00Z"},
				},
			},
			{Path: path, Remove: true},
		} {
			changed, _, err := ApplyTable("a.json", text, table)
			if err != nil || !json.Valid(changed) {
				t.Errorf("%q, %d: %v\n%s", before, n, err, changed)
				break
			}
			text = changed
		}
		for _, l := range []List{
			{Section: "extensions", Key: "disabled", Add: []string{"x"}},
			{Section: "extensions", Key: "disabled", Remove: "x"},
		} {
			changed, _, err := Apply("a.json", text, l)
			if err != nil || !json.Valid(changed) {
				t.Errorf("%q, %v: %v\n%s", before, l, err, changed)
				break
			}
			text = changed
		}
	}
}
