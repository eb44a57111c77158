// SPDX-License-Identifier: Apache-2.0

package report

import (
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"io"
	"net/http"
	"net/url"
)

// Guard passes only requests that know the token: other users of this machine can reach its loopback too, and
// a recording reveals command lines and prompts. The first request has it in its URL, /?token=TOKEN. The
// answer is a cookie and a redirect to the URL without it, so that neither the browser's history nor
// bookmarks keep it.
func Guard(token string, h http.Handler) http.Handler {
	sum := sha256.Sum256([]byte(token))
	// cookies ignore ports: each server on this machine has its own
	name := "profinfer-" + hex.EncodeToString(sum[:8])
	is := func(s string) bool { return subtle.ConstantTimeCompare([]byte(s), []byte(token)) == 1 }
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		query := r.URL.Query()
		if r.URL.Path == "/" && is(query.Get("token")) &&
			(r.Method == http.MethodGet || r.Method == http.MethodHead) {
			secure(w)
			w.Header().Set("Cache-Control", "no-store")
			http.SetCookie(w, &http.Cookie{Name: name, Value: token, Path: "/", HttpOnly: true,
				SameSite: http.SameSiteStrictMode})
			query.Del("token")
			w.Header().Set("Location", (&url.URL{Path: "/", RawQuery: query.Encode()}).String())
			w.WriteHeader(http.StatusSeeOther)
			return
		}
		for _, c := range r.CookiesNamed(name) {
			if is(c.Value) {
				h.ServeHTTP(w, r)
				return
			}
		}
		secure(w)
		w.Header().Set("Cache-Control", "no-store")
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		w.WriteHeader(http.StatusForbidden)
		_, _ = io.WriteString(w, "This page is shown to those who have its address with the token.\nOpen the whole address that profinfer serve printed: http://.../?token=...\n")
	})
}
