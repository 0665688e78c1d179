// Package echo is the frontend of hosts/testing/echo.c.
package echo

/*
#cgo CFLAGS: -I${SRCDIR}/../../../../include -I${SRCDIR}/../../../testing
#cgo LDFLAGS: -ltrunnion
#include "echo.c"
*/
import "C"

import "unsafe"

// Routes gives a new trn_routes.
func Routes() unsafe.Pointer {
	var routes *C.trn_routes
	if C.echo_routes_create(&routes) != 0 {
		return nil
	}
	return unsafe.Pointer(routes)
}
