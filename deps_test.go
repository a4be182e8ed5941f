package exthost_test

import (
	"encoding/json"
	"errors"
	"io"
	"os/exec"
	"path"
	"slices"
	"strings"
	"testing"
)

const module = "github.com/exthost/exthost"

// house says which of our packages each package may import, and why. A package
// that is not listed may not exist.
var house = map[string]struct {
	may    []string
	reason string
}{
	"protocol":              {nil, "shared by host and authors, so it drags nothing in"},
	"internal/jsonrpc":      {[]string{"internal/rawjson"}, "knows none of our methods"},
	"internal/process":      {nil, "process hygiene is not about extensions"},
	"internal/rawjson":      {nil, "edits bytes"},
	"internal/nearest":      {nil, "compares words"},
	"internal/redact":       {[]string{"internal/nearest"}, "masks texts"},
	"internal/glob":         {nil, "compares names"},
	"internal/regular":      {nil, "reads a file"},
	"internal/shellwords":   {nil, "splits a line"},
	"internal/strict":       {[]string{"protocol", "internal/nearest"}, "decodes any file; what a key means is not its matter"},
	"internal/hookimport":   {[]string{"manifest", "internal/rawjson", "internal/nearest", "internal/glob"}, "reads the hooks of another program, for the command line"},
	"internal/latency":      {nil, "counts durations"},
	"internal/broadcast":    {nil, "hands on anything"},
	"internal/journal":      {[]string{"internal/broadcast"}, "keeps log records"},
	"internal/wiretap":      {[]string{"internal/broadcast"}, "shows frames, whatever they say"},
	"internal/daemon":       {nil, "finds a running host; what is said to it is not its matter"},
	"internal/clientconfig": {[]string{"manifest", "internal/process", "internal/redact"}, "a helper of the program: reads files of others"},
	"internal/jwt":          {nil, "holds tokens against keys"},
	"internal/mcphttp":      {[]string{"internal/jsonrpc", "internal/rawjson"}, "MCP's HTTP wire as messages"},

	"manifest":             {[]string{"protocol", "internal/glob", "internal/nearest", "internal/regular", "internal/shellwords", "internal/strict", "manifest/internal/configschema", "manifest/internal/mcpjson"}, "the model of plugin.toml"},
	"discovery":            {[]string{"manifest", "protocol"}, "a worker: finds candidates"},
	"runtime":              {[]string{"manifest", "protocol", "internal/jsonrpc", "internal/process", "internal/mcphttp", "internal/rawjson", "internal/wiretap"}, "a worker: runs one instance"},
	"supervisor":           {[]string{"protocol"}, "a worker: keeps one named thing alive"},
	"tools":                {[]string{"protocol", "internal/rawjson", "internal/nearest"}, "a worker: names and validates, calls nothing"},
	"hooks":                {[]string{"protocol", "internal/process", "internal/rawjson", "internal/glob"}, "a worker: ordered callbacks"},
	"governance":           {[]string{"protocol", "internal/glob", "internal/rawjson"}, "a worker: decides, changes, records"},
	"governance/builtin":   {[]string{"governance", "governance/pins", "governance/results", "protocol", "internal/rawjson", "internal/redact", "internal/nearest"}, "the policies without a process"},
	"governance/approval":  {[]string{"governance", "internal/rawjson", "internal/redact"}, "asks people; who they are is not its matter"},
	"governance/pins":      {[]string{"protocol"}, "compares descriptors with what was approved"},
	"governance/results":   {[]string{"protocol", "internal/rawjson"}, "keeps what is too big to pass"},
	"governance/audit":     {[]string{"governance", "protocol", "internal/glob", "internal/rawjson", "internal/redact"}, "records; who reads it needs no host"},
	"config":               {[]string{"manifest", "protocol", "discovery", "supervisor", "tools", "hooks", "governance", "governance/builtin", "config/internal/edit", "internal/regular", "internal/strict"}, "decodes the option structs of the workers, and has policies judge their own"},
	"config/internal/edit": {[]string{"internal/strict"}, "changes lists in texts"},
	"sdk":                  {[]string{"protocol", "internal/jsonrpc", "internal/rawjson"}, "the author's side of the wire"},
	"sdk/python":           {nil, "a file to embed"},
	"sdk/node":             {nil, "files to embed"},

	"manifest/internal/configschema": {nil, "checks a document"},
	"manifest/internal/mcpjson":      {[]string{"protocol", "internal/strict"}, "decodes servers; which are valid is not its matter"},
	"governance/grpcpolicy":          {[]string{"governance", "governance/grpcpolicy/pluginv1", "protocol", "internal/process", "internal/rawjson"}, "a policy's process, and its wire"},
	"governance/grpcpolicy/pluginv1": {nil, "generated"},
	"governance/mcppolicy":           {[]string{"governance", "protocol", "internal/rawjson", "internal/nearest"}, "asks through a caller; what runs is not its matter"},
	"governance/nativepolicy":        {[]string{"governance", "protocol", "internal/rawjson", "internal/nearest"}, "asks through a caller; what runs is not its matter"},

	"": {[]string{"config", "discovery", "runtime", "supervisor", "tools", "hooks", "governance", "governance/approval", "governance/audit", "governance/builtin", "governance/grpcpolicy", "governance/mcppolicy", "governance/nativepolicy", "governance/pins", "governance/results", "manifest", "protocol", "internal/process", "internal/rawjson", "internal/nearest", "internal/redact", "internal/latency", "internal/broadcast", "internal/journal", "internal/wiretap"},
		"glue between the workers, which never import each other"},
	"mcpserver":  {[]string{"protocol", "internal/jsonrpc", "internal/mcphttp", "internal/rawjson"}, "serves any Backend, so never the root"},
	"httpserver": {[]string{"", "mcpserver", "config", "protocol", "tools", "governance", "supervisor", "internal/mcphttp", "internal/jwt"}, "mounts the fronts on HTTP"},

	"internal/check":    {[]string{"", "manifest", "protocol", "runtime", "supervisor", "tools", "internal/jsonrpc", "internal/process", "internal/rawjson", "internal/nearest"}, "a helper of the program above the workers: drives extensions, as the host and by hand"},
	"internal/scaffold": {[]string{"manifest", "sdk/node", "sdk/python"}, "a helper of the program: writes files"},

	"governance/governancetest":    {[]string{"governance", "protocol"}, "holds every kind of policy against the same rules"},
	"internal/process/processtest": {[]string{"internal/process"}, "asserts that nothing is left behind"},
	"internal/benchtest":           {[]string{"internal/process/processtest"}, "the floor that benchmarks are held against"},
	"internal/stormtest":           {nil, "sizes of tests, and the clock"},
}

// TestHouse holds the import graph against the table.
func TestHouse(t *testing.T) {
	cmd := exec.Command("go", "list", "-json=ImportPath,Imports,Doc,Name", "./...")
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	dec := json.NewDecoder(strings.NewReader(string(out)))
	for {
		var p struct {
			ImportPath, Doc, Name string
			Imports               []string
		}
		if err := dec.Decode(&p); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
		name := ours(p.ImportPath)
		if p.Doc == "" && p.Name != "main" {
			t.Errorf("package %s has no comment that says what it is", p.ImportPath)
		}
		if free(name) {
			continue
		}
		rule, known := house[name]
		if !known {
			t.Errorf("package %q is not in the table: give it a room, a reason and what it may import", name)
			continue
		}
		for _, imp := range p.Imports {
			if imp != module && !strings.HasPrefix(imp, module+"/") {
				continue
			}
			if !slices.Contains(rule.may, ours(imp)) {
				t.Errorf("package %q imports %q: not allowed, because it is %s", name, ours(imp), rule.reason)
			}
		}
	}
}

func ours(importPath string) string {
	return strings.TrimPrefix(strings.TrimPrefix(importPath, module), "/")
}

// free packages may import anything: the program, its helpers above the workers,
// and examples. Nothing but them imports them.
func free(name string) bool {
	return path.Dir(name) == "cmd" || strings.HasPrefix(name, "cmd/") || strings.HasPrefix(name, "examples/") ||
		name == "internal/bundled" || name == "internal/peertest" || name == "docs"
}
