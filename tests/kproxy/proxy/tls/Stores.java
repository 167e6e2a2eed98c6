// Writes key and trust stores of every kind that Java has, in one go, where keytool would take a second for each.
//
//     java Stores.java FOLDER
//
// FOLDER has me.p12, with the key "me", its certificate and that of its authority, under the password "a password".

import java.io.InputStream;
import java.io.OutputStream;
import java.nio.file.Files;
import java.nio.file.Path;
import java.security.Key;
import java.security.KeyStore;
import java.security.cert.Certificate;
import javax.crypto.spec.SecretKeySpec;

public class Stores {
    static final char[] PASSWORD = "a password".toCharArray();
    static Path folder;
    static Key key;
    static Certificate[] chain;

    public static void main(String[] arguments) throws Exception {
        folder = Path.of(arguments[0]);
        KeyStore given = KeyStore.getInstance("PKCS12");
        try (InputStream in = Files.newInputStream(folder.resolve("me.p12"))) {
            given.load(in, PASSWORD);
        }
        String alias = given.aliases().nextElement();
        key = given.getKey(alias, PASSWORD);
        chain = given.getCertificateChain(alias);
        for (String kind : new String[] {"PKCS12", "JKS", "JCEKS"}) {
            both(kind, kind);
        }
        System.setProperty("keystore.pkcs12.legacy", "");  // as JDKs before 8u301 and 11.0.12
        both("PKCS12", "legacy");
        System.clearProperty("keystore.pkcs12.legacy");
        System.setProperty("keystore.pkcs12.certProtectionAlgorithm", "NONE");  // as cacerts since JDK 18
        System.setProperty("keystore.pkcs12.macAlgorithm", "NONE");
        write(trusted("PKCS12"), "bare.trust", null);
        several("JKS", "k\u00e9y password");
        several("JCEKS", "key password");  // which takes ASCII only
        KeyStore secret = made("JCEKS");
        secret.setKeyEntry("aes", new SecretKeySpec(new byte[16], "AES"), PASSWORD, null);
        write(secret, "secret", PASSWORD);
    }

    static void both(String kind, String name) throws Exception {
        KeyStore keys = made(kind);
        keys.setKeyEntry("me", key, PASSWORD, chain);
        write(keys, name + ".keys", PASSWORD);
        write(trusted(kind), name + ".trust", PASSWORD);
    }

    static KeyStore trusted(String kind) throws Exception {
        KeyStore store = made(kind);
        store.setCertificateEntry("root", chain[1]);
        store.setCertificateEntry("me", chain[0]);
        return store;
    }

    static void several(String kind, String password) throws Exception {
        KeyStore store = made(kind);
        store.setKeyEntry("one", key, password.toCharArray(), chain);
        store.setKeyEntry("two", key, password.toCharArray(), chain);
        store.setCertificateEntry("three", chain[1]);
        write(store, kind + ".several", "st\u00f6re password".toCharArray());
    }

    static KeyStore made(String kind) throws Exception {
        KeyStore store = KeyStore.getInstance(kind);
        store.load(null, null);
        return store;
    }

    static void write(KeyStore store, String name, char[] password) throws Exception {
        try (OutputStream out = Files.newOutputStream(folder.resolve(name))) {
            store.store(out, password);
        }
    }
}
