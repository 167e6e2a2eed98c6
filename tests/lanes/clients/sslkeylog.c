/* Makes a program that is dynamically linked to OpenSSL write a key log:
 *
 *     cc -shared -fPIC -o sslkeylog.so sslkeylog.c -ldl
 *     SSLKEYLOGFILE=keys.log LD_PRELOAD=./sslkeylog.so kcat ...
 *
 * Every SSL_CTX of the program gets a callback (OpenSSL 1.1.1 and later) that receives each secret. This has no effect
 * on a program with its own OpenSSL inside, because SSL_CTX_new is then not resolved by the dynamic linker.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

typedef struct ssl_st SSL;
typedef struct ssl_ctx_st SSL_CTX;
typedef struct ssl_method_st SSL_METHOD;
typedef struct ossl_lib_ctx_st OSSL_LIB_CTX;
typedef void (*keylog_callback)(const SSL *, const char *);

/* The wrapped function. Extension modules load libssl out of reach of RTLD_NEXT; in that case look it up by name. */
static void *library(const char *name) {
    static const char *const names[] = {"libssl.so.3", "libssl.so.1.1"};
    void *found = dlsym(RTLD_NEXT, name);
    for (int at = 0; !found && at < 2; at++) {
        void *loaded = dlopen(names[at], RTLD_LAZY | RTLD_NOLOAD);
        if (loaded) {
            found = dlsym(loaded, name);
            dlclose(loaded);
        }
    }
    return found;
}

/* One writev per line: threads and processes may share the file. */
static void write_line(const SSL *connection, const char *line) {
    (void)connection;
    const char *path = getenv("SSLKEYLOGFILE");
    int file = path ? open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600) : -1;
    if (file < 0)
        return;
    struct iovec parts[] = {{(void *)line, strlen(line)}, {"\n", 1}};
    if (writev(file, parts, 2) < 0) { /* no key log; the program continues */ }
    close(file);
}

static SSL_CTX *with_keylog(SSL_CTX *context) {
    void (*set)(SSL_CTX *, keylog_callback) = library("SSL_CTX_set_keylog_callback");
    if (context && set)
        set(context, write_line);
    return context;
}

SSL_CTX *SSL_CTX_new(const SSL_METHOD *method) {
    SSL_CTX *(*original)(const SSL_METHOD *) = library("SSL_CTX_new");
    return original ? with_keylog(original(method)) : NULL;
}

SSL_CTX *SSL_CTX_new_ex(OSSL_LIB_CTX *libctx, const char *properties, const SSL_METHOD *method) {
    SSL_CTX *(*original)(OSSL_LIB_CTX *, const char *, const SSL_METHOD *) = library("SSL_CTX_new_ex");
    return original ? with_keylog(original(libctx, properties, method)) : NULL;
}
