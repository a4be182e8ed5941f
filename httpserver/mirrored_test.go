package httpserver

import (
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/exthost/exthost"
)

// A call whose headers do not repeat the mirrored arguments of its tool is refused, under either name of the tool.
func TestHeadersRepeatArguments(t *testing.T) {
	h := openKit(t, exthost.Options{})
	addr := "http://" + serve(t, Options{Backend: h, Serves: h.Serves}, nil)
	for path, name := range map[string]string{"/mcp": "ext_kit_place", "/kit/mcp": "place"} {
		for region, status := range map[string]int{
			"eu": http.StatusOK,
			"us": http.StatusBadRequest,
			"":   http.StatusBadRequest,
		} {
			header := http.Header{
				"Mcp-Protocol-Version": {"2026-07-28"},
				"Mcp-Method":           {"tools/call"},
				"Mcp-Name":             {name},
			}
			if region != "" {
				header.Set("Mcp-Param-Region", region)
			}
			r := send(t, http.MethodPost, addr+path, header,
				`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"`+name+
					`","arguments":{"region":"eu"},"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}}}`)
			answer, _ := io.ReadAll(r.Body)
			if r.StatusCode != status ||
				(status != http.StatusOK) != strings.Contains(string(answer), `"code":-32020`) {
				t.Errorf("%s with %q: %s %s", path, region, r.Status, answer)
			}
		}
	}
}
