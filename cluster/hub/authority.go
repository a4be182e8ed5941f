package hub

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"math/big"
	"time"

	"github.com/exthost/exthost/cluster/internal/credentials"
)

// authority signs the certificates of hubs, and nothing else.
type authority struct {
	cert *x509.Certificate
	key  crypto.Signer
}

const (
	lifetime  = 20 * 365 * 24 * time.Hour
	clockSkew = 24 * time.Hour // allows for nodes whose clocks are behind
)

// newAuthority returns a new CA certificate and its key in PEM.
func newAuthority(cluster string) (cert, key []byte, err error) {
	k, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, err
	}
	now := time.Now()
	t := &x509.Certificate{
		SerialNumber:          serial(),
		Subject:               pkix.Name{CommonName: "exthost cluster " + cluster},
		NotBefore:             now.Add(-clockSkew),
		NotAfter:              now.Add(lifetime),
		KeyUsage:              x509.KeyUsageCertSign,
		BasicConstraintsValid: true,
		IsCA:                  true,
		MaxPathLenZero:        true,
	}
	der, err := x509.CreateCertificate(rand.Reader, t, t, k.Public(), k)
	if err != nil {
		return nil, nil, err
	}
	raw, err := x509.MarshalPKCS8PrivateKey(k)
	if err != nil {
		return nil, nil, err
	}
	return pem.EncodeToMemory(&pem.Block{
		Type:  "CERTIFICATE",
		Bytes: der,
	}), pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: raw}), nil
}

func readAuthority(cert, key []byte) (*authority, error) {
	pair, err := tls.X509KeyPair(cert, key)
	if err != nil {
		return nil, err
	}
	k, ok := pair.PrivateKey.(crypto.Signer)
	if !ok {
		return nil, errors.New("its key signs nothing")
	}
	return &authority{cert: pair.Leaf, key: k}, nil
}

// issue returns a certificate with which a hub identifies itself to nodes and to other hubs. The private key stays in
// memory.
func (a *authority) issue(cluster string) (tls.Certificate, error) {
	k, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return tls.Certificate{}, err
	}
	name := credentials.ServerName(cluster)
	t := &x509.Certificate{
		SerialNumber: serial(),
		Subject:      pkix.Name{CommonName: name},
		DNSNames:     []string{name},
		NotBefore:    a.cert.NotBefore,
		NotAfter:     a.cert.NotAfter,
		KeyUsage:     x509.KeyUsageDigitalSignature,
		ExtKeyUsage:  []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, t, a.cert, k.Public(), a.key)
	if err != nil {
		return tls.Certificate{}, err
	}
	return tls.Certificate{Certificate: [][]byte{der, a.cert.Raw}, PrivateKey: k}, nil
}

func serial() *big.Int {
	var b [16]byte
	_, _ = rand.Read(b[:]) // never fails
	return new(big.Int).SetBytes(b[:])
}
