// Package credentials reads how a node connects to the servers of its cluster: from an invitation file, or
// from the NATS credentials of an operator.
package credentials

import (
	"cmp"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/nats-io/nkeys"

	"github.com/exthost/exthost/cluster/internal/natsclient"
	"github.com/exthost/exthost/config/cluster"
	"github.com/exthost/exthost/internal/file"
	"github.com/exthost/exthost/internal/file/ownership"
)

// Credentials holds the servers and the identity of a node.
type Credentials struct {
	Cluster string // "": not in the file
	Node    string // "": not in the file
	natsclient.Access
}

// maxFile bounds the size of a file with credentials, a key or certificates, in bytes.
const maxFile = 256 << 10

// Of reads the credentials for m: from the invitation file m.Join, or else from the other files that m names. Its
// errors name the file and the remedy.
func Of(m *cluster.Membership) (*Credentials, error) {
	if m.Join != "" {
		return Read(m.Join)
	}
	c := new(Credentials)
	switch {
	case m.Creds != "":
		text, err := secret(m.Creds)
		if err != nil {
			return nil, err
		}
		if c, err = parse(text); err != nil {
			return nil, fmt.Errorf("%s is no file of NATS credentials: %w", m.Creds, err)
		}
	case m.NKey != "":
		text, err := secret(m.NKey)
		if err != nil {
			return nil, err
		}
		if c.NKey, c.Sign, err = parseSeed(seedIn(text)); err != nil {
			return nil, fmt.Errorf("%s holds no NKey of a user: %w", m.NKey, err)
		}
	}
	c.URLs = m.URLs
	return c, c.secure(m.TLS)
}

// Read reads an invitation file. Its errors name the file and the remedy.
func Read(file string) (*Credentials, error) {
	text, err := secret(file)
	if err != nil {
		return nil, err
	}
	c, err := parse(text)
	if err == nil && (c.Cluster == "" || c.Node == "" || len(c.URLs) == 0 || c.TLS == nil) {
		err = errors.New("it does not say which cluster, node, servers and CA it is for")
	}
	if err != nil {
		return nil, fmt.Errorf("%s is not what exthost cluster invite writes: %w; let the operator of the hub invite "+
			"the node again", file, err)
	}
	return c, nil
}

// secure sets c.TLS from the certificates in files.
func (c *Credentials) secure(files cluster.Certificates) error {
	if files == (cluster.Certificates{}) {
		return nil
	}
	t := &tls.Config{MinVersion: tls.VersionTLS12}
	if files.CA != "" {
		text, _, err := file.ReadRegular(files.CA, maxFile, true)
		if err != nil {
			return err
		}
		t.RootCAs = x509.NewCertPool()
		if !t.RootCAs.AppendCertsFromPEM(text) {
			return fmt.Errorf("%s has no PEM certificate", files.CA)
		}
	}
	if files.Cert != "" {
		if refused := (ownership.Rule{}).Secret(files.Key); refused != nil {
			return refused
		}
		pair, err := tls.LoadX509KeyPair(files.Cert, files.Key)
		if err != nil {
			return fmt.Errorf("%s and %s: %w", files.Cert, files.Key, err)
		}
		t.Certificates = []tls.Certificate{pair}
	}
	c.TLS = t
	return nil
}

// secret reads a file that no other user may read or change.
func secret(path string) (string, error) {
	if refused := (ownership.Rule{}).Secret(path); refused != nil {
		return "", refused
	}
	data, _, err := file.ReadRegular(path, maxFile+1, true)
	switch {
	case errors.Is(err, os.ErrNotExist):
		return "", fmt.Errorf("there is no file %s: exthost cluster invite NODE > %s writes one, at the hub", path,
			filepath.Base(path))
	case err != nil:
		return "", err
	case len(data) > maxFile:
		return "", fmt.Errorf("%s is more than %d bytes", path, maxFile)
	}
	return string(data), nil
}

// ServerName returns the name in the certificates of a cluster's hubs. All hubs have the same name: the CA signs only
// for hubs, and a hub may have many addresses.
func ServerName(cluster string) string { return cluster + ".hub.exthost" }

// Invitation is the content of an invitation file.
type Invitation struct {
	Cluster, Node string
	URLs          []string
	CA            string // PEM
	JWT, Seed     string
}

// The markers of the sections, as the tools of NATS write and read them.
const (
	beginJWT, endJWT   = "-----BEGIN NATS USER JWT-----", "------END NATS USER JWT------"
	beginSeed, endSeed = "-----BEGIN USER NKEY SEED-----", "------END USER NKEY SEED------"
	beginCA            = "-----BEGIN CERTIFICATE-----"
)

// String returns the text of the file.
func (i *Invitation) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "# %s in the cluster %s of exthost. Anyone who has this file can join as %[1]s: keep it as a "+
		"password.\ncluster: %[2]s\nnode: %[1]s\n", i.Node, i.Cluster)
	for _, u := range i.URLs {
		fmt.Fprintf(&b, "url: %s\n", u)
	}
	fmt.Fprintf(&b, "%s\n%s\n%s\n\n%s\n%s\n%s\n\n%s\n", beginJWT, i.JWT, endJWT, beginSeed, i.Seed, endSeed,
		strings.TrimSpace(i.CA))
	return b.String()
}

// parse reads the text of a credentials file.
func parse(text string) (*Credentials, error) {
	c := new(Credentials)
	c.JWT = block(text, beginJWT, endJWT)
	if c.JWT == "" {
		return nil, errors.New("it has no JWT of a user")
	}
	public, sign, err := parseSeed(block(text, beginSeed, endSeed))
	if err != nil {
		return nil, err
	}
	if of, err := subjectOf(c.JWT); err != nil || of != public {
		return nil, cmp.Or(err, errors.New("its seed is not that of its JWT"))
	}
	c.Sign = sign
	head, _, _ := strings.Cut(text, "-----BEGIN")
	for line := range strings.Lines(head) {
		key, value, _ := strings.Cut(line, ":")
		switch value = strings.TrimSpace(value); key {
		case "cluster":
			c.Cluster, err = value, cluster.CheckName(value)
		case "node":
			c.Node, err = value, cluster.CheckName(value)
		case "url":
			c.URLs, err = append(c.URLs, value), cluster.CheckURL(value)
		}
		if err != nil {
			return nil, err
		}
	}
	if _, ca, ok := strings.Cut(text, beginCA); ok {
		pool := x509.NewCertPool()
		if !pool.AppendCertsFromPEM([]byte(beginCA + ca)) {
			return nil, errors.New("its certificate of a CA cannot be read")
		}
		c.TLS = &tls.Config{MinVersion: tls.VersionTLS13, RootCAs: pool, ServerName: ServerName(c.Cluster)}
	}
	return c, nil
}

// block returns the text between two markers, or "".
func block(text, begin, end string) string {
	_, rest, _ := strings.Cut(text, begin)
	inside, _, ok := strings.Cut(rest, end)
	if !ok {
		return ""
	}
	return strings.TrimSpace(inside)
}

// OfText reads credentials for servers outside of the cluster: the text of a NATS credentials file, an NKey seed, or
// otherwise a token. The result contains no servers. Errors do not quote the text.
func OfText(text string) (*Credentials, error) {
	c := new(Credentials)
	switch {
	case strings.Contains(text, beginJWT):
		c, err := parse(text)
		if err != nil {
			return nil, fmt.Errorf("it is no file of NATS credentials: %w", err)
		}
		return c, nil
	case strings.HasPrefix(seedIn(text), "SU"):
		var err error
		if c.NKey, c.Sign, err = parseSeed(seedIn(text)); err != nil {
			return nil, fmt.Errorf("it holds no NKey of a user: %w", err)
		}
	default:
		c.Token = strings.TrimSpace(text)
	}
	return c, nil
}

// parseSeed decodes the seed of a user. It returns the public key, and a function that signs with the private key.
func parseSeed(text string) (public string, sign func([]byte) ([]byte, error), err error) {
	k, err := nkeys.FromSeed([]byte(text))
	if err == nil {
		public, err = k.PublicKey()
	}
	if err != nil || !nkeys.IsValidPublicUserKey(public) {
		return "", nil, errors.New("it has no seed of a user that can be read")
	}
	return public, k.Sign, nil
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
