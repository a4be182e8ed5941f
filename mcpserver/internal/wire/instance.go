package wire

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"net/netip"
	"strconv"

	"github.com/exthost/exthost/internal/text/rawjson"
)

// Instance returns an id that tells the clients of stateless requests apart, by their name and version and by their
// remote address. It returns "" for a nameless client on this machine.
func Instance(clientInfo json.RawMessage, remoteAddr string) string {
	name, _ := rawjson.Text(rawjson.Get(clientInfo, "name")) // a malformed clientInfo counts as empty
	version, _ := rawjson.Text(rawjson.Get(clientInfo, "version"))
	from := ""
	if at, err := netip.ParseAddrPort(remoteAddr); err == nil && !at.Addr().Unmap().IsLoopback() {
		from = at.Addr().String()
	}
	if name == "" && from == "" {
		return ""
	}
	client := strconv.AppendQuote(make([]byte, 0, 128), name)
	for _, part := range []string{version, from} {
		client = strconv.AppendQuote(append(client, ' '), part)
	}
	sum := sha256.Sum256(client)
	return "client " + hex.EncodeToString(sum[:16])
}
