/* Start the studio with the Python that lies next to this program, and no window. What it says goes to
   %LOCALAPPDATA%\nmt\studio.log; the end of that is shown if it fails. Compiled by app.py. */

#include <windows.h>
#include <wchar.h>

#define MOST 32768
#define SHOWN 1500

static wchar_t here[MOST], python[MOST], command[MOST], log_path[MOST];
static const wchar_t *TITLE = L"Translator Studio";

static int fail(const wchar_t *text)
{
    MessageBoxW(NULL, text, TITLE, MB_ICONWARNING);
    return 1;
}

/* Show the end of the log, which is UTF-8. */
static int show_log(HANDLE file)
{
    static char read[SHOWN + 1];
    static wchar_t text[MOST];
    LARGE_INTEGER size;
    DWORD count = 0;
    GetFileSizeEx(file, &size);
    SetFilePointer(file, size.QuadPart > SHOWN ? (LONG)(size.QuadPart - SHOWN) : 0, NULL, FILE_BEGIN);
    ReadFile(file, read, SHOWN, &count, NULL);
    int length = MultiByteToWideChar(CP_UTF8, 0, read, (int)count, text, SHOWN);
    swprintf(text + length, MOST - length, L"\n\nAll of it is in %ls", log_path);
    return fail(text);
}

int WINAPI wWinMain(HINSTANCE instance, HINSTANCE none, LPWSTR arguments, int shown)
{
    (void)instance, (void)none, (void)arguments, (void)shown;
    GetModuleFileNameW(NULL, here, MOST);
    *(wcsrchr(here, L'\\') + 1) = 0;
    swprintf(python, MOST, L"%lspython\\pythonw.exe", here);
    if (GetFileAttributesW(python) == INVALID_FILE_ATTRIBUTES)
        return fail(L"This was started from within the zip. Extract all of it first: right-click on the zip, Extract All.");

    GetEnvironmentVariableW(L"LOCALAPPDATA", log_path, MOST - 99);
    wcscat(log_path, L"\\nmt");
    CreateDirectoryW(log_path, NULL);
    wcscat(log_path, L"\\studio.log");
    SECURITY_ATTRIBUTES inherited = {sizeof inherited, NULL, TRUE};
    DWORD share = FILE_SHARE_READ | FILE_SHARE_WRITE | FILE_SHARE_DELETE;
    HANDLE file = CreateFileW(log_path, GENERIC_READ | GENERIC_WRITE, share, &inherited, CREATE_ALWAYS, 0, NULL);
    HANDLE nothing = CreateFileW(L"NUL", GENERIC_READ, share, &inherited, OPEN_EXISTING, 0, NULL);

    SetEnvironmentVariableW(L"PYTHONUTF8", L"1");
    swprintf(command, MOST, L"\"%ls\" -m nmt studio", python);
    STARTUPINFOW startup = {.cb = sizeof startup, .dwFlags = STARTF_USESTDHANDLES};
    startup.hStdInput = nothing, startup.hStdOutput = startup.hStdError = file;
    PROCESS_INFORMATION process;
    if (!CreateProcessW(python, command, NULL, NULL, TRUE, 0, NULL, NULL, &startup, &process))
        return fail(L"Windows does not let python\\pythonw.exe start. What to do is in README.txt.");
    DWORD code = 0;
    WaitForSingleObject(process.hProcess, INFINITE);
    GetExitCodeProcess(process.hProcess, &code);
    return code ? show_log(file) : 0;
}
