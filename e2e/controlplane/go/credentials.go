package main

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"time"
)

func init() { extra["credentials"] = writeCredentials }

// writeCredentials fills a folder with an authority (ca), a serving certificate and the key that signs account tokens. The API server could
// sign its own certificate, but Python 3.13 and newer refuse the one it makes: it names no authority key.
func writeCredentials(args []string) int {
	if len(args) != 1 {
		fmt.Fprintln(os.Stderr, "usage: controlplane credentials FOLDER")
		return 2
	}
	if err := fillCredentials(args[0]); err != nil {
		fmt.Fprintln(os.Stderr, "cannot make credentials:", err)
		return 1
	}
	return 0
}

func fillCredentials(folder string) error {
	authorityKey, err := writeKey(filepath.Join(folder, "ca.key"))
	if err != nil {
		return err
	}
	servingKey, err := writeKey(filepath.Join(folder, "serving.key"))
	if err != nil {
		return err
	}
	if _, err = writeKey(filepath.Join(folder, "service-account.key")); err != nil {
		return err
	}
	now := time.Now()
	authority := &x509.Certificate{
		SerialNumber:          big.NewInt(now.UnixNano()),
		Subject:               pkix.Name{CommonName: "dovetail-controlplane-ca"},
		NotBefore:             now.Add(-time.Hour),
		NotAfter:              now.AddDate(1, 0, 0),
		KeyUsage:              x509.KeyUsageCertSign | x509.KeyUsageCRLSign,
		IsCA:                  true,
		BasicConstraintsValid: true,
	}
	signed, err := writeCertificate(filepath.Join(folder, "ca.crt"), authority, authority, authorityKey, authorityKey)
	if err != nil {
		return err
	}
	serving := &x509.Certificate{
		SerialNumber: big.NewInt(now.UnixNano() + 1),
		Subject:      pkix.Name{CommonName: "kube-apiserver"},
		NotBefore:    authority.NotBefore,
		NotAfter:     authority.NotAfter,
		KeyUsage:     x509.KeyUsageDigitalSignature,
		ExtKeyUsage:  []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
		DNSNames:     []string{"localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc"},
		IPAddresses:  []net.IP{net.IPv4(127, 0, 0, 1), net.IPv4(10, 0, 0, 1)},
	}
	_, err = writeCertificate(filepath.Join(folder, "serving.crt"), serving, signed, servingKey, authorityKey)
	return err
}

// writeKey does not use PKCS 8: the API server takes the public half of service-account.key only out of this older form.
func writeKey(path string) (*ecdsa.PrivateKey, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	bytes, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		return nil, err
	}
	return key, writePEM(path, "EC PRIVATE KEY", bytes)
}

// writeCertificate returns what it wrote, parsed: only then does an authority know the identifier of its own key, which
// the certificates that it signs must name.
func writeCertificate(path string, template, parent *x509.Certificate, key, signer *ecdsa.PrivateKey) (*x509.Certificate, error) {
	bytes, err := x509.CreateCertificate(rand.Reader, template, parent, key.Public(), signer)
	if err != nil {
		return nil, err
	}
	if err := writePEM(path, "CERTIFICATE", bytes); err != nil {
		return nil, err
	}
	return x509.ParseCertificate(bytes)
}

func writePEM(path, kind string, bytes []byte) error {
	return os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: bytes}), 0o600)
}
