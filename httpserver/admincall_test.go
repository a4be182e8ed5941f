package httpserver

import (
	"bufio"
	"bytes"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/exthost/exthost"
	"github.com/exthost/exthost/config"
	"github.com/exthost/exthost/internal/testing/processtest"
)

// slow reports progress at a call, and answers when a file go is beside it: with an error if the call says so.
const slow = `
answer() { printf '{"jsonrpc":"2.0","id":%s,%s}\n' "$id" "$1"; }
while read -r line; do
	id=${line#*\"id\":}; id=${id%%[,\}]*}
	case $line in
	*'"initialize"'*)
		answer '"result":{"tools":[{"name":"work","input_schema":{"type":"object"}}],"hooks":[]}' ;;
	*'"notifications/'*) ;;
	*'"tools/call"'*)
		token=${line#*\"progressToken\":}; token=${token%%[,\}]*}
		printf '{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":%s,%s}}\n' "$token" \
			'"progress":1,"total":4,"message":"reading"'
		until [ -e go ]; do sleep 0.02; done
		case $line in
		*fail*) answer '"error":{"code":-32050,"message":"closed"}' ;;
		*) answer '"result":{"content":[],"structuredContent":{"n":12345678901234567890,"text":"<a>"}}' ;;
		esac ;;
	*) answer '"result":{}' ;;
	esac
done
`

// A call with progress is answered with lines: progress while the tool works, and last the result as the tool has
// returned it, or the error.
func TestCallWithProgress(t *testing.T) {
	processtest.Leaks(t)
	dir := t.TempDir()
	writeManifest(t, dir, "slow", "[plugin]\nid = \"slow\"\nversion = \"0.1.0\"\n[capabilities]\ntools = [\"work\"]\n"+
		"[transport]\ncommand = \"sh\"\nargs = [\"main.sh\"]\n")
	if err := os.WriteFile(filepath.Join(dir, "slow/main.sh"), []byte(slow), 0o600); err != nil {
		t.Fatal(err)
	}
	cfg := config.Default()
	cfg.Extensions.SearchPaths = []string{dir}
	var s *httptest.Server
	t.Cleanup(func() { s.Close() }) // after the host, which ends the calls
	s = httptest.NewServer(Admin(openHost(t, cfg, exthost.Options{}), nil))
	c := readContract(t, openAPI)
	proceed := filepath.Join(dir, "slow/go")
	for arguments, want := range map[string]string{
		`{}`:            `{"result":{"content":[],"structuredContent":{"n":12345678901234567890,"text":"<a>"}}}`,
		`{"fail":true}`: `"kind":"extension_error"`,
	} {
		req, err := http.NewRequestWithContext(t.Context(), "POST",
			s.URL+"/api/v1/tools/ext_slow_work/call?progress=true", strings.NewReader(arguments))
		if err != nil {
			t.Fatal(err)
		}
		resp, err := s.Client().Do(req)
		if err != nil {
			t.Fatal(err)
		}
		lines := bufio.NewReader(resp.Body)
		next := func() []byte {
			line, err := lines.ReadBytes('\n')
			if err != nil {
				t.Fatalf("%s: %v", line, err)
			}
			c.check(t, "a line", []string{"paths", "/api/v1/tools/{name}/call", "post", "responses", "200", "content",
				"application/x-ndjson", "x-lines"}, bytes.Clone(line))
			return line
		}
		if got := string(next()); got != `{"progress":{"progress":1,"total":4,"message":"reading"}}`+"\n" {
			t.Errorf("first: %s", got)
		}
		if err := os.WriteFile(proceed, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		if got := string(next()); !strings.Contains(got, want) {
			t.Errorf("last: %s, want %s", got, want)
		}
		if rest, err := lines.ReadString('\n'); rest != "" || err == nil {
			t.Errorf("after the last line: %s", rest)
		}
		resp.Body.Close()
		if err := os.Remove(proceed); err != nil {
			t.Fatal(err)
		}
	}
	var failed failure
	if code := askAdmin(t, s, "POST", "/api/v1/tools/ext_slow_wrok/call?progress=true", "", &failed); code !=
		http.StatusNotFound || !strings.Contains(failed.Error.Message, "ext_slow_work") {
		t.Errorf("of an unknown tool: %d %+v", code, failed)
	}
	if code := askAdmin(t, s, "POST", "/api/v1/tools/ext_slow_work/call?progress=some", "", &failed); code !=
		http.StatusBadRequest {
		t.Errorf("of an unknown value: %d %+v", code, failed)
	}
	if code := askAdmin(t, s, "POST", "/api/v1/tools/ext_slow_work/call", "{", &failed); code != http.StatusBadRequest {
		t.Errorf("of broken arguments: %d %+v", code, failed)
	}
}
