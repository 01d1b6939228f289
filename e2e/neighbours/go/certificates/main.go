// The certificates of a webhook server: `certificates FOLDER AUTHORITY NAME` writes ca.crt, ca.key, tls.crt and tls.key.
//
// Kueue's cert-controller takes over what it finds if it could have made it itself: an authority with this DNS name and
// RSA keys, a certificate for the name of the Service, both valid for more than 90 days. Beside that name the
// certificate is for 127.0.0.1, by which the API server calls a process of this machine.
package main

import (
	"crypto/rand"
	"crypto/rsa"
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

func main() {
	if len(os.Args) != 4 {
		fmt.Fprintln(os.Stderr, "usage: certificates FOLDER AUTHORITY NAME")
		os.Exit(2)
	}
	if err := write(os.Args[1], os.Args[2], os.Args[3]); err != nil {
		fmt.Fprintln(os.Stderr, "cannot make certificates:", err)
		os.Exit(1)
	}
}

func write(folder, authorityName, name string) error {
	now := time.Now()
	authority := &x509.Certificate{
		SerialNumber:          big.NewInt(now.UnixNano()),
		Subject:               pkix.Name{CommonName: authorityName},
		DNSNames:              []string{authorityName},
		NotBefore:             now.Add(-time.Hour),
		NotAfter:              now.AddDate(1, 0, 0),
		KeyUsage:              x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
		IsCA:                  true,
		BasicConstraintsValid: true,
	}
	signer, signed, err := writePair(folder, "ca", authority, nil, nil)
	if err != nil {
		return err
	}
	serving := &x509.Certificate{
		SerialNumber: big.NewInt(now.UnixNano() + 1),
		Subject:      pkix.Name{CommonName: name},
		DNSNames:     []string{name},
		IPAddresses:  []net.IP{net.IPv4(127, 0, 0, 1)},
		NotBefore:    authority.NotBefore,
		NotAfter:     authority.NotAfter,
		KeyUsage:     x509.KeyUsageDigitalSignature | x509.KeyUsageKeyEncipherment,
		ExtKeyUsage:  []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	_, _, err = writePair(folder, "tls", serving, signed, signer)
	return err
}

// writePair makes a key and a certificate, which the key itself signs where there is no signer.
func writePair(folder, name string, template, parent *x509.Certificate, signer *rsa.PrivateKey) (*rsa.PrivateKey, *x509.Certificate, error) {
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		return nil, nil, err
	}
	if parent == nil {
		parent, signer = template, key
	}
	bytes, err := x509.CreateCertificate(rand.Reader, template, parent, key.Public(), signer)
	if err != nil {
		return nil, nil, err
	}
	path := filepath.Join(folder, name)
	if err := writePEM(path+".key", "RSA PRIVATE KEY", x509.MarshalPKCS1PrivateKey(key)); err != nil {
		return nil, nil, err
	}
	if err := writePEM(path+".crt", "CERTIFICATE", bytes); err != nil {
		return nil, nil, err
	}
	certificate, err := x509.ParseCertificate(bytes)
	return key, certificate, err
}

func writePEM(path, kind string, bytes []byte) error {
	return os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: bytes}), 0o600)
}
