package sandbox_test

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/exthost/exthost/manifest/sandbox"
)

func TestValidate(t *testing.T) {
	good := sandbox.Table{
		Profile: "node",
		Read:    []string{"data", "./data", "~/notes", "~", "/srv/x", "{state}", "{state}/x", "a..b"},
		Write:   []string{"{state}"},
		Net:     sandbox.Net{"api.github.com:443", "localhost:80", "x_y.example:65535"},
	}
	if p := good.Validate(); p != nil {
		t.Errorf("%v", p)
	}
	for _, word := range []sandbox.Net{nil, {"none"}, {"loopback"}, {}} {
		if p := (&sandbox.Table{Net: word}).Validate(); p != nil {
			t.Errorf("%v: %v", word, p)
		}
	}
	for _, path := range []string{"", "../x", "a/../../b", "/a/../b", "~root", "~root/x", "{home}/x", "{state}x",
		"*.txt", "$HOME", "a\x00"} {
		if p := (&sandbox.Table{Read: []string{path}}).Validate(); len(p) != 1 || p[0].Field != "read[0]" {
			t.Errorf("%q: %v", path, p)
		}
	}
	for _, host := range []string{"x:", "x:0", "x:65536", "x:y", ":443", "*.x:443", "1.2.3.4:80", "127.1:80",
		"[::1]:80", "::1", "http://x:80", "x:80:80", "a b:80", "-x:80", "x..y:80", "0x7f:80:1"} {
		if p := (&sandbox.Table{Net: sandbox.Net{host, "fine:1"}}).Validate(); len(p) != 1 || p[0].Field != "net[0]" {
			t.Errorf("%q: %v", host, p)
		}
	}
	if p := (&sandbox.Table{Profile: "nodejs", Net: sandbox.Net{"non"}}).Validate(); len(p) != 2 || p[0].Hint == "" ||
		p[1].Hint == "" {
		t.Errorf("%v", p)
	}
}

func TestAsks(t *testing.T) {
	for _, tt := range []struct {
		table *sandbox.Table
		want  []string
	}{
		{nil, []string{
			"reads and writes all files that you may",
			"reaches every host",
			"sees the other programs that run as you",
		}},
		{&sandbox.Table{}, []string{"reads its own folder alone", "has no network"}},
		{&sandbox.Table{
			Read:       []string{"./data", "~/notes", "~"},
			Write:      []string{"{state}", "{state}/x"},
			Net:        sandbox.Net{"a:1", "b:2"},
			BestEffort: true,
		}, []string{
			"reads ./data in its own folder", "reads ~/notes", "reads your home directory (~)",
			"reads and writes its state directory",
			"reads and writes x in its state directory", "reaches a:1, b:2 and nothing else",
			"starts even where the system cannot enforce that (best_effort)"}},
		{&sandbox.Table{Net: sandbox.Net{"loopback"}},
			[]string{"reads its own folder alone", "has a loopback interface of its own, and no other network"}},
	} {
		if diff := cmp.Diff(tt.want, tt.table.Asks()); diff != "" {
			t.Error(diff)
		}
	}
}

func TestOverride(t *testing.T) {
	author := &sandbox.Table{Profile: "node", Read: []string{"~/a"}, Net: sandbox.Net{"x:1"}}
	strict := &sandbox.Table{Write: []string{"{state}"}}
	for name, tt := range map[string]struct {
		o         sandbox.Override
		table     *sandbox.Table
		byDefault string
		want      *sandbox.Table
	}{
		"nothing":             {sandbox.Override{}, nil, sandbox.Off, nil},
		"by default":          {sandbox.Override{}, nil, sandbox.Strict, strict},
		"the author's":        {sandbox.Override{}, author, sandbox.Off, author},
		"strict":              {sandbox.Override{Mode: sandbox.Strict}, nil, sandbox.Off, strict},
		"strict and author's": {sandbox.Override{Mode: sandbox.Strict}, author, sandbox.Off, author},
		"off":                 {sandbox.Override{Mode: sandbox.Off}, author, sandbox.Strict, nil},
		"keys": {sandbox.Override{Net: sandbox.Net{"none"}, BestEffort: new(true)}, author, sandbox.Off,
			&sandbox.Table{Profile: "node", Read: []string{"~/a"}, Net: sandbox.Net{"none"}, BestEffort: true}},
		"keys alone": {sandbox.Override{Read: []string{"~/b"}}, nil, sandbox.Off,
			&sandbox.Table{Read: []string{"~/b"}, Write: []string{"{state}"}}},
		"keys after off": {sandbox.Override{Mode: sandbox.Off, Read: []string{}}, author, sandbox.Off,
			&sandbox.Table{Profile: "node", Read: nil, Net: sandbox.Net{"x:1"}}},
	} {
		got := tt.o.Over(tt.table, tt.byDefault, "sh")
		if got != nil && len(got.Read) == 0 {
			got.Read = nil
		}
		if diff := cmp.Diff(tt.want, got); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
	for command, want := range map[string]string{
		"sh": "", "nodes": "", "": "", "./node-server": "",
		"node": "node", "/home/ann/.nvm/versions/node/v22.1.0/bin/node": "node", "npx": "node",
		"python3": "python", "python": "python", "/usr/bin/python3.12": "python", "uvx": "uv", "uv": "uv",
	} {
		for table, profile := range map[*sandbox.Table]string{
			nil:                want,
			{Read: []string{}}: want,
			{Profile: "none"}:  "none",
			{Profile: "node"}:  "node",
		} {
			if got := (sandbox.Override{Mode: sandbox.Strict}).Over(table, "", command); got.Profile != profile {
				t.Errorf("%q with %+v has profile %q", command, table, got.Profile)
			}
		}
	}
	for text, o := range map[string]sandbox.Override{
		`"off"`:            {Mode: sandbox.Off},
		`{"net":["none"]}`: {Net: sandbox.Net{"none"}},
	} {
		if got, err := json.Marshal(o); err != nil || string(got) != text {
			t.Errorf("%s: %s, %v", text, got, err)
		}
	}
}
