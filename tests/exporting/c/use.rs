//! Translates the lines of the standard input; the declarations are those of translator.h.
use std::ffi::{c_char, c_double, c_int, c_void, CStr, CString};
use std::io::BufRead;

#[repr(C)]
struct Translation {
    text: *const c_char,
    size: usize,
    score: c_double,
    log_prob: c_double,
    length: c_int,
}
#[repr(C)]
struct Line {
    count: usize,
    translations: *const Translation,
    warnings: c_int,
}
#[repr(C)]
struct Results {
    count: usize,
    lines: *const Line,
}
#[link(name = "translator", kind = "static")]
#[link(name = "m")]
extern "C" {
    fn nmt_load(path: *const c_char, level: *const c_char, model: *mut *mut c_void, error: *mut c_char) -> c_int;
    fn nmt_free_model(model: *mut c_void);
    fn nmt_translate(model: *const c_void, lines: *const *const c_char, sizes: *const usize, count: usize,
                     options: *const c_void, results: *mut *const Results, error: *mut c_char) -> c_int;
    fn nmt_free_results(results: *const Results);
}

fn main() {
    let (path, mut model) = (CString::new("model.bin").unwrap(), std::ptr::null_mut());
    let mut results: *const Results = std::ptr::null();
    let all: Vec<String> = std::io::stdin().lock().lines().map(|line| line.unwrap()).collect();
    let lines: Vec<*const c_char> = all.iter().map(|line| line.as_ptr().cast()).collect();
    let sizes: Vec<usize> = all.iter().map(|line| line.len()).collect();
    let none = std::ptr::null_mut();
    unsafe {
        assert_eq!(nmt_load(path.as_ptr(), none, &mut model, none), 0);
        let options = std::ptr::null();
        assert_eq!(nmt_translate(model, lines.as_ptr(), sizes.as_ptr(), lines.len(), options, &mut results, none), 0);
        for n in 0..(*results).count {
            let best = (*(*results).lines.add(n)).translations;
            assert_eq!(CStr::from_ptr((*best).text).to_bytes().len(), (*best).size);
            println!("{}", CStr::from_ptr((*best).text).to_str().unwrap());
        }
        nmt_free_results(results);
        nmt_free_model(model);
    }
}
