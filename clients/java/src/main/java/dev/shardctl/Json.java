package dev.shardctl;

import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.stream.Collectors;

/** JSON as the replica sends and takes it: objects are maps, numbers Long or Double. */
final class Json {
    private final String text;
    private int at;

    private Json(String text) {
        this.text = text;
    }

    @SuppressWarnings("unchecked")
    static Map<String, Object> object(String text) {
        return (Map<String, Object>) new Json(text).value();
    }

    static String write(Object value) {
        if (value instanceof Map<?, ?> map) {
            return map.entrySet().stream().map(e -> write(e.getKey()) + ":" + write(e.getValue()))
                .collect(Collectors.joining(",", "{", "}"));
        }
        return value instanceof String text ? quote(text) : String.valueOf(value);
    }

    private static String quote(String text) {
        var out = new StringBuilder("\"");
        for (char c : text.toCharArray()) {
            if (c == '"' || c == '\\' || c < ' ') {
                out.append(String.format("\\u%04x", (int) c));
            } else {
                out.append(c);
            }
        }
        return out.append('"').toString();
    }

    private Object value() {
        switch (next()) {
            case '{':
                var map = new LinkedHashMap<String, Object>();
                for (at++; next() != '}'; skip(',')) {
                    String key = string();
                    skip(':');
                    map.put(key, value());
                }
                at++;
                return map;
            case '[':
                List<Object> list = new ArrayList<>();
                for (at++; next() != ']'; skip(',')) {
                    list.add(value());
                }
                at++;
                return list;
            case '"':
                return string();
            default:
                int from = at;
                while (at < text.length() && ",]} \n\r\t".indexOf(text.charAt(at)) < 0) {
                    at++;
                }
                String word = text.substring(from, at);
                return switch (word) {
                    case "null" -> null;
                    case "true" -> true;
                    case "false" -> false;
                    default -> integer(word) ? (Object) Long.valueOf(word) : (Object) Double.valueOf(word);
                };
        }
    }

    private static boolean integer(String word) {
        return word.chars().noneMatch(c -> c == '.' || c == 'e' || c == 'E');
    }

    private String string() {
        next();
        int from = ++at;
        while (text.charAt(at) != '"' && text.charAt(at) != '\\') {
            at++;
        }
        var out = new StringBuilder(text.substring(from, at));
        for (; text.charAt(at) != '"'; at++) {
            char c = text.charAt(at);
            if (c == '\\') {
                c = text.charAt(++at);
                switch (c) {
                    case 'n' -> c = '\n';
                    case 't' -> c = '\t';
                    case 'r' -> c = '\r';
                    case 'b' -> c = '\b';
                    case 'f' -> c = '\f';
                    case 'u' -> {
                        c = (char) Integer.parseInt(text.substring(at + 1, at + 5), 16);
                        at += 4;
                    }
                    default -> { } // it stands for itself
                }
            }
            out.append(c);
        }
        at++;
        return out.toString();
    }

    private char next() {
        while (Character.isWhitespace(text.charAt(at))) {
            at++;
        }
        return text.charAt(at);
    }

    private void skip(char c) {
        if (next() == c) {
            at++;
        }
    }
}
