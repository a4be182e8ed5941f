package directory

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/exthost/exthost/internal/text/rawjson"
	"github.com/exthost/exthost/peers"
	"github.com/exthost/exthost/protocol"
)

// maxOffer bounds the size of an offer in bytes.
const maxOffer = 8 << 20

// offer describes a shared extension: its properties and the descriptors of its tools. Nodes fetch and keep offers by
// the digest of raw, so that an offer that many nodes have is fetched once. raw is the properties as a JSON object,
// followed by the descriptors as the extension sent them.
type offer struct {
	peers.Offer                   // State is ""
	digests     map[string]string // of descriptors, by tool name
	digest      string
	raw         []byte
}

// Digest returns the SHA-256 of raw in hex.
func Digest(raw []byte) string {
	d := sha256.Sum256(raw)
	return hex.EncodeToString(d[:])
}

func isDigest(s string) bool {
	b, err := hex.DecodeString(s)
	return err == nil && len(b) == sha256.Size
}

// encodeOffer returns the offer of a local extension. before is its previous offer, or nil; it is returned if nothing
// has changed.
func encodeOffer(o peers.Offer, before *offer) (*offer, error) {
	o.State = ""
	raw, err := json.Marshal(o)
	if err != nil {
		return nil, fmt.Errorf("extension %s: %w", o.Extension, err)
	}
	for _, t := range o.Tools {
		raw = append(append(raw, '\n'), t.Raw...)
	}
	if len(raw) > maxOffer {
		return nil, fmt.Errorf("extension %s has descriptors of %d bytes, more than %d", o.Extension, len(raw),
			maxOffer)
	}
	if before != nil && bytes.Equal(raw, before.raw) {
		return before, nil
	}
	return decodeOffer(raw)
}

// decodeOffer parses an offer from an untrusted node.
func decodeOffer(raw []byte) (*offer, error) {
	head, rest, err := cutValue(raw)
	if err != nil {
		return nil, err
	}
	o := &offer{digests: make(map[string]string), digest: Digest(raw), raw: raw}
	if err := json.Unmarshal(head, &o.Offer); err != nil {
		return nil, fmt.Errorf("an offer: %w", err)
	}
	o.State = ""
	for rest = bytes.TrimSpace(rest); len(rest) > 0; rest = bytes.TrimSpace(rest) {
		var t json.RawMessage
		if t, rest, err = cutValue(rest); err != nil {
			return nil, err
		}
		if !rawjson.IsObject(t) {
			return nil, errors.New("an offer: a descriptor is not an object")
		}
		name, _ := rawjson.Text(rawjson.Get(t, "name"))
		if name == "" || o.digests[name] != "" {
			return nil, fmt.Errorf("an offer: a tool has no name, or that of another: %.40q", name)
		}
		o.Tools = append(o.Tools, protocol.Tool{Name: name, Raw: t})
		o.digests[name] = Digest(t)
	}
	return o, nil
}

// cutValue splits b after its first JSON value.
func cutValue(b []byte) (value json.RawMessage, rest []byte, err error) {
	end, err := rawjson.SkipValue(b, 0)
	if err != nil {
		return nil, nil, fmt.Errorf("an offer: %w", err)
	}
	return json.RawMessage(b[:end:end]), b[end:], nil
}
