package credentials

import (
	"crypto/ed25519"
	"encoding/base32"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"errors"
	"strings"
)

// The type bits of user keys, as NATS encodes them.
const (
	prefixSeed = 18 << 3
	prefixUser = 20 << 3
)

var encoding = base32.StdEncoding.WithPadding(base32.NoPadding)

// key is the private key of a user.
type key ed25519.PrivateKey

// parseSeed decodes a user seed: 5 bits for a seed, 5 for a user, 32 bytes and a checksum.
func parseSeed(text string) (key, error) {
	raw, err := encoding.DecodeString(text)
	if err != nil || len(raw) != 2+ed25519.SeedSize+2 || raw[0]&0xf8 != prefixSeed ||
		raw[0]&7<<5|raw[1]&0xf8>>3 != prefixUser ||
		binary.LittleEndian.Uint16(raw[len(raw)-2:]) != checksum(raw[:len(raw)-2]) {
		return nil, errors.New("it has no seed of a user that can be read")
	}
	return key(ed25519.NewKeyFromSeed(raw[2 : 2+ed25519.SeedSize])), nil
}

// seedIn returns the first line that looks like a seed, as files may contain comments.
func seedIn(text string) string {
	for line := range strings.Lines(text) {
		if line = strings.TrimSpace(line); strings.HasPrefix(line, "SU") {
			return line
		}
	}
	return ""
}

// public returns the public key, which names the user.
func (k key) public() string {
	raw := append([]byte{prefixUser}, ed25519.PrivateKey(k).Public().(ed25519.PublicKey)...)
	return encoding.EncodeToString(binary.LittleEndian.AppendUint16(raw, checksum(raw)))
}

func (k key) sign(data []byte) ([]byte, error) { return ed25519.Sign(ed25519.PrivateKey(k), data), nil }

// checksum is CRC-16/XMODEM.
func checksum(data []byte) (crc uint16) {
	for _, b := range data {
		crc ^= uint16(b) << 8
		for range 8 {
			if carry := crc&0x8000 != 0; carry {
				crc = crc<<1 ^ 0x1021
			} else {
				crc <<= 1
			}
		}
	}
	return crc
}

// subjectOf returns the public key that a JWT was issued for. Servers verify the JWT, this function does not.
func subjectOf(jwt string) (string, error) {
	parts := strings.Split(jwt, ".")
	var claims struct {
		Subject string `json:"sub"`
	}
	if len(parts) != 3 {
		return "", errors.New("its JWT cannot be read")
	}
	data, err := base64.RawURLEncoding.DecodeString(parts[1])
	if err == nil {
		err = json.Unmarshal(data, &claims)
	}
	if err != nil || claims.Subject == "" {
		return "", errors.New("its JWT cannot be read")
	}
	return claims.Subject, nil
}
