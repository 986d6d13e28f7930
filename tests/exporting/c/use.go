package main

/*
#cgo LDFLAGS: -L. -ltranslator -lm
#include <stdlib.h>
#include "translator.h"
*/
import "C"

import (
	"bufio"
	"fmt"
	"os"
	"sync"
	"unsafe"
)

func main() {
	path, message := C.CString("model.bin"), (*C.char)(C.malloc(C.NMT_ERROR_SIZE))
	var model *C.nmt_model
	if C.nmt_load(path, nil, &model, message) != C.NMT_OK {
		fmt.Println(C.GoString(message))
		os.Exit(1)
	}
	var lines []string
	for scanner := bufio.NewScanner(os.Stdin); scanner.Scan(); {
		lines = append(lines, scanner.Text())
	}
	found := make([]string, len(lines))
	var waiting sync.WaitGroup
	for n := range lines {
		waiting.Add(1)
		go func(n int) {
			defer waiting.Done()
			line := (**C.char)(C.malloc(8))
			*line = C.CString(lines[n])
			var results *C.nmt_results
			C.nmt_translate(model, line, nil, 1, nil, &results, nil)
			found[n] = C.GoString(results.lines.translations.text)
			C.nmt_free_results(results)
			C.free(unsafe.Pointer(*line))
		}(n)
	}
	waiting.Wait()
	for _, text := range found {
		fmt.Println(text)
	}
	C.nmt_free_model(model)
}
